"""Folders of the command, and the Python module, include those that the tables of docs/design.md allow them, and no others."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "design.md").read_text()
ROW = re.compile(r"^\| \[(\w+)\]\(\.\./tools/\1\) \| .* \| ([^|]*) \|$", re.MULTILINE)
PYTHON = re.compile(r"^\| \[python\]\(\.\./python\) \| .* \| ([^|]*) \|$", re.MULTILINE)


def allowed():
    """Folder of tools/ -> those that it may include, from the rows in their order."""
    rows = {}
    for folder, words in ROW.findall(PAGE):
        rows[folder] = set(rows) if words == "all of the above" else set(rows) & set(re.findall(r"\w+", words))
    return rows


def includes(folder):
    """(file, the first folder of what it includes) of ours."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in {".hpp", ".cpp", ".cu", ".hip"}:
            for path in re.findall(r'^\s*#\s*include "([^"]+)"', file.read_text(), re.MULTILINE):
                yield file.relative_to(ROOT), path.split("/")[0]


def folders(root):
    return {folder.name for folder in root.iterdir() if folder.is_dir()}


class Includes(unittest.TestCase):
    def test_the_table_names_every_folder(self):
        self.assertEqual(set(allowed()), folders(ROOT / "tools"))

    def test_folders_of_the_command_follow_the_table(self):
        rows, seen = allowed(), 0
        for folder in rows:
            for file, other in includes(ROOT / "tools" / folder):
                if other in rows and other != folder:
                    self.assertIn(other, rows[folder], f"{file} includes {other}")
                    seen += 1
        self.assertGreater(seen, 50)

    def test_the_python_module_follows_the_table(self):
        modules, seen = folders(ROOT / "src") - set(re.findall(r"\w+", PYTHON.search(PAGE)[1])), 0
        for file, other in includes(ROOT / "python" / "src"):
            self.assertNotIn(other, modules, str(file))
            seen += other == "samebits"
        self.assertGreater(seen, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
