"""docs/command.md names every flag that the command has, and no other."""
import re
import unittest
from pathlib import Path

import command
from command import run

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "command.md").read_text()
FLAG = r"--[a-z][a-z0-9-]*"
COMPUTE = ["verify", "bench", "run"]

# Of other programs that the page runs.
OTHERS = {"--bind-to", "--enable-recovery", "--mca", "--oversubscribe", "--binary"}


def flags_of(*verb):
    """The long options that a help lists: each begins a line, behind its short one if it has any."""
    done = run(*verb, "--help")
    assert done.returncode == 0, done.stderr
    return set(re.findall(rf"^  (?:-\w,)?({FLAG})", done.stdout, re.MULTILINE))


def sections():
    """Heading -> text, of the page's sections of the second level."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


class Flags(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        verbs = re.findall(r"^  (\w+)  ", run("--help").stdout.split("Subcommands:")[1].split("\n\n")[0], re.MULTILINE)
        cls.flags = {verb: flags_of(verb) - {"--help"} for verb in verbs}
        cls.shared = set.intersection(*(cls.flags[verb] for verb in COMPUTE))

    def test_there_is_something_to_compare(self):
        self.assertLessEqual({"--contract", "--engine", "--json"}, self.shared)
        self.assertIn("--links", self.flags["bench"])
        self.assertEqual(self.flags["info"], {"--json"})

    def test_every_verb_has_a_section(self):
        self.assertLessEqual(set(self.flags), set(sections()))

    def test_every_flag_is_on_the_page(self):
        told = {heading: set(re.findall(FLAG, text)) for heading, text in sections().items()}
        shared = told["Flags of every verb that computes"] & self.shared
        for verb, flags in self.flags.items():
            self.assertEqual(flags - told[verb] - (shared if verb in COMPUTE else {"--json"}), set(), verb)

    def test_the_page_names_no_other_flag(self):
        told = set(re.findall(FLAG, PAGE))
        ours = set.union(*self.flags.values()) | flags_of()
        self.assertEqual(told - ours - OTHERS, set())
        self.assertLessEqual(OTHERS, told - ours)

    def test_command_lines_give_a_verb_its_own_flags(self):
        lines = 0
        for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
            # A line that is indented goes on with the one before.
            for verb, rest in re.findall(r"\bsamebits (\w+)\b(.*(?:\n +.*)*)", block):
                self.assertEqual(set(re.findall(FLAG, rest)) - self.flags[verb], set(), verb + rest)
                lines += 1
        self.assertGreater(lines, 10)


if __name__ == "__main__":
    command.main()
