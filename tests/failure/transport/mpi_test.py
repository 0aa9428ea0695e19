"""Ranks of an MPI world that die, stall, leave, give up or disagree: every other rank ends with a line that names it, in time.

usage: mpi_test.py MPI_RANKS
The job runs with --enable-recovery, so that mpirun lets survivors speak; what it returns itself is not looked at.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT = 1.5  # seconds without a sign of life
PATIENCE = 30  # seconds for a job, launch included


def mpirun(ranks, *flags):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", *flags, "--mca", "btl", "self,vader",
            "--mca", "mpi_yield_when_idle", "1", "-np", str(ranks)]


def job(binary, ranks, what, one=None):
    """rank -> (exit code, message), and the seconds that passed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*mpirun(ranks, "--enable-recovery"), binary, folder, str(TIMEOUT), what, *([str(one)] if one is not None else [])]
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        wanted = set(range(ranks)) - ({one} if what in ("dies", "stops") else set())
        try:
            while time.monotonic() - begun < PATIENCE:
                if wanted <= {int(name) for name in os.listdir(folder)} or process.poll() is not None:
                    break
                time.sleep(0.05)
            seconds = time.monotonic() - begun
            time.sleep(0.1)
            results = {}
            for name in os.listdir(folder):
                code, _, message = open(os.path.join(folder, name)).read().partition(" ")
                results[int(name)] = (int(code or -1), message.strip())
            return results, seconds
        finally:
            subprocess.run(["pkill", "-KILL", "-f", folder], check=False)  # a stopped rank is of no session
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()


def exit_code(binary, ranks, what, one):
    """What mpirun returns where it counts ranks that end without finalizing MPI as failures."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*mpirun(ranks), binary, folder, str(TIMEOUT), what, str(one)], capture_output=True,
                              timeout=PATIENCE).returncode


def expect(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def main():
    binary = sys.argv[1]
    for ranks in (1, 2, 3, 5, 8):
        results, seconds = job(binary, ranks, "moves")
        expect(results == {r: (0, "") for r in range(ranks)}, f"moves, {ranks} ranks, {seconds:.1f} s: {results}")
    for ranks in (1, 2):
        results, seconds = job(binary, ranks, "no-bytes")
        expect(results == {r: (0, "") for r in range(ranks)}, f"no-bytes, {ranks} ranks: {results}")
    for what, words in (("one-thread", "this MPI takes calls from one thread only: MPI_THREAD_SERIALIZED is needed"),
                        ("no-copy", "copying the world: MPI_ERR_OTHER: known error not in list")):
        results, seconds = job(binary, 2, what)
        expect(results == {-1: (3, words)}, f"{what}: {results}")  # nobody knows his rank
    results, seconds = job(binary, 3, "computes", 1)
    expect(results == {r: (0, "") for r in range(3)}, f"a rank that computes for three timeouts is alive: {results}")
    for ranks, one in ((2, 0), (3, 2), (16, 5)):
        code = exit_code(binary, ranks, "ends-late", one)
        expect(code == 0, f"ends-late: rank {one} of {ranks}: mpirun returns {code}")
    cases = {
        "dies": (3, "no sign of life"),
        "stops": (3, "no sign of life"),
        "leaves": (3, "ended while others wait for it"),
        "gives-up": (3, "gave up: the disk of this rank is full"),
        "cannot-post": (3, "moving bytes: MPI_ERR_OTHER"),
        "cannot-tell": (3, "no sign of life"),
        "cannot-ask": (3, "no sign of life"),
        "disagrees": (None, "disagree about the bytes of a collective"),
    }
    for what, (code, words) in cases.items():
        for ranks, one in ((2, 1), (4, 0)):
            results, seconds = job(binary, ranks, what, one)
            others = [r for r in range(ranks) if r != one]
            for r in others:
                expect(r in results, f"{what}: rank {r} of {ranks} said nothing within {seconds:.1f} s: {results}")
                expect(results[r][0] in ((code,) if code else (2, 3)), f"{what}: rank {r} ended with {results[r]}")
                expect(words in results[r][1], f"{what}: rank {r} says {results[r]}")
                if what != "disagrees":
                    expect(f"rank {one} (" in results[r][1], f"{what}: rank {r} does not name rank {one}: {results[r]}")
            if what == "disagrees":
                expect(any(result[0] == 2 for result in results.values()), f"disagreement: nobody says so: {results}")
            if what == "cannot-post":
                expect(results[one] == results[others[0]], f"cannot-post: rank {one} says {results[one]}")
            if what in ("cannot-tell", "cannot-ask"):
                expect(results[one][0] == 3 and "cannot be reached" in results[one][1], f"{what}: rank {one} says {results[one]}")
            if what == "leaves":
                expect(results[one][0] == 0, f"leaves: rank {one} ended with {results[one]}")
            print(f"{what}, {ranks} ranks: {seconds:.1f} s, {results[others[0]][1]}")
    print("ok")


if __name__ == "__main__":
    main()
