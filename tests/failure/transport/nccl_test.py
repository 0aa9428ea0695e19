"""Ranks as processes over a stand-in for NCCL: bytes, the block, and ranks that die, stop, leave, stall or fail.
Every other rank ends with a line that says so, in time.

usage: nccl_test.py NCCL_RANKS STAND_IN_LIBRARY
"""
import os
import subprocess
import sys
import tempfile
import time

TIMEOUT = 2  # seconds a rank waits for another
PATIENCE = 20  # seconds for a whole job, computing on two cores included
LOST = 3


def job(ranks, what, one=None, timeout=TIMEOUT, library=None, **told):
    """rank -> (exit code, message), and the seconds that passed. A rank that neither ends nor is meant to hang is no result."""
    binary, stand_in = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SAMEBITS_STAND_IN_FOLDER": folder, **{f"SAMEBITS_STAND_IN_{k}": str(v) for k, v in told.items()}}
        begun = time.monotonic()
        processes = [
            subprocess.Popen([binary, library or stand_in, os.path.join(folder, "id"), str(rank), str(ranks), str(timeout), what,
                              *([str(one)] if one is not None else [])], env=environment, stdout=subprocess.PIPE, text=True)
            for rank in range(ranks)]
        wanted = [r for r in range(ranks) if not (what == "stops" and r == one)]
        try:
            while time.monotonic() - begun < PATIENCE and any(processes[r].poll() is None for r in wanted):
                time.sleep(0.02)
            seconds = time.monotonic() - begun
            ended = {r: processes[r].poll() for r in wanted}
        finally:
            for process in processes:
                process.kill()
            messages = [process.communicate()[0].strip() for process in processes]
        return {r: (code, messages[r]) for r, code in ended.items() if code is not None}, seconds


def expect(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def expect_all_well(ranks, what, **more):
    results, seconds = job(ranks, what, timeout=PATIENCE, **more)
    expect(results == {r: (0, "") for r in range(ranks)}, f"{what}, {ranks} ranks, {seconds:.1f} s: {results}")
    print(f"{what}, {ranks} ranks: {seconds:.1f} s")


def expect_lost(ranks, what, one, words, others=None, **more):
    results, seconds = job(ranks, what, one, **more)
    for rank in others if others is not None else [r for r in range(ranks) if r != one]:
        expect(rank in results, f"{what}: rank {rank} of {ranks} has not ended after {seconds:.1f} s: {results}")
        expect(results[rank][0] == LOST and words in results[rank][1], f"{what}: rank {rank} of {ranks}: {results[rank]}")
    print(f"{what} {more or ''}, {ranks} ranks: {seconds:.1f} s, {results}")
    return results


def main():
    for ranks in (1, 2, 3, 5, 8):
        expect_all_well(ranks, "moves")
    for layout, ranks in (("tp2+sp", 2), ("tp2+cp2", 4), ("tp4+cp2+sp", 8)):
        expect_all_well(ranks, f"block:{layout}")
    expect_all_well(3, "finishes", one=1)
    for ranks, one in ((2, 1), (4, 0)):
        expect_lost(ranks, "dies", one, f"rank {one} (")
        expect_lost(ranks, "leaves", one, f"rank {one} (")
    results = expect_lost(3, "stops", 2, "has waited for")
    expect("rank 2 (" in results[0][1], f"stops: rank 2 is not named: {results}")
    expect_lost(3, "late", 1, "did not join within 2 s")
    # After two groups of calls that introduce a rank, and some that go well.
    expect_lost(3, "moves", None, "has waited for", others=[0, 1, 2], RANK=1, STALL=20)
    results = expect_lost(3, "moves", None, "", others=[1], RANK=1, ASYNC=20)
    expect("NCCL reports: remote process exited" in results[1][1], f"an error found later: {results}")
    expect(all(code == LOST for code, _ in results.values()), f"an error found later: {results}")
    results = expect_lost(3, "moves", None, "", others=[1], RANK=1, FAIL=20)
    expect("NCCL answers: unhandled system error" in results[1][1], f"a call that fails: {results}")
    expect(all(code == LOST for code, _ in results.values()), f"a call that fails: {results}")
    results, _ = job(1, "moves", library="/nowhere/libnccl.so.2")
    expect(results[0][0] == 4 and "no NCCL or RCCL could be loaded" in results[0][1], f"absent: {results}")
    results, _ = job(1, "moves", VERSION=21706)
    expect(results[0][0] == 4 and "is version 2.17.6: 2.18.0 or later is needed" in results[0][1], f"old: {results}")
    print("ok")


if __name__ == "__main__":
    main()
