#!/usr/bin/env python3
"""Breaks the code on purpose, one change at a time, and shows what notices.

usage: scripts/mutants.py [--only NAME] [--build DIR]
Each mutant is a change that must break bits. The tree is copied to DIR/source (default build-mutants), changed, built, and
the strict tests and `samebits verify` run on it. Prints a table: mutant, tests that fail, checks of `verify` that fail.
Exit code 1 when a mutant survives the tests or verify.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ["unit/numerics/numerics_test", "unit/numerics/numerics_oracle_test", "unit/tools/unit_tools", "golden/golden_test", "invariance/invariance_engine",
         "invariance/invariance_layouts", "invariance/invariance_recorded", "invariance/invariance_environment"]

# name: (file, text, replacement). The text must stand there exactly once.
MUTANTS = {
    "another split point": ("src/numerics/tree.hpp", "node.length() / (2 * granule) * granule;",
                            "(node.length() + 2 * granule - 1) / (2 * granule) * granule;"),
    "lane-wise sum": ("src/engine/cpu/tile.hpp",
                      "      const float* row = t.rows.value + piece.begin;",
                      "      // Two accumulators, one for each half of the piece, added at its end.\n"
                      "      F other[R][C];\n"
                      "      const int half = piece.begin + (piece.end - piece.begin) / 2;\n"
                      "      for (int r = 0; r < R; ++r) {\n"
                      "        for (int c = 0; c < C; ++c) {\n"
                      "          other[r][c] = V::zero();\n"
                      "          for (int k = half; k < piece.end; ++k) {\n"
                      "            other[r][c] = V::fma(V::broadcast(t.rows.value + r * kRowStride + k),\n"
                      "                                 V::load(t.lanes.value + std::int64_t{k} * kWidth + c * V::kLanes), other[r][c]);\n"
                      "          }\n"
                      "        }\n"
                      "      }\n"
                      "      const float* row = t.rows.value + piece.begin;"),
    "swapped node": ("src/ffn/cover_reduction.cpp",
                     "finish_[static_cast<std::size_t>(lane)][next] = {data, row_stride, merges_[next]};",
                     "const std::size_t swapped = all_nodes_ > 2 && (next == 1 || next == 2) ? 3 - next : next;\n"
                     "      finish_[static_cast<std::size_t>(lane)][swapped] = {data, row_stride, merges_[swapped]};"),
    "double rounding": ("src/numerics/swiglu.hpp", "  return round_bf16(gate_root + up_root);",
                        "  return round_bf16(rounded_bf16(gate_root) + up_root);"),
    "rounded accumulator": ("src/engine/cpu/tile.hpp", "      if (t.round_nodes) {\n        push_nodes",
                            "      if (!t.round_nodes) {\n        push_nodes"),
    "contraction left on": ("CMakeLists.txt", "-ffp-contract=off", "-ffp-contract=fast -mfma"),
    "flush to zero": ("src/engine/cpu/fp_environment.hpp", "_mm_setcsr(0x1F80);", "_mm_setcsr(0x9FC0);"),
}
EXTRA = {  # what completes a mutant: more of (file, text, replacement)
    "lane-wise sum": [
        ("src/engine/cpu/tile.hpp", "for (int k = piece.begin; k < piece.end; ++k, ++row, lane += kWidth) {",
         "for (int k = piece.begin; k < half; ++k, ++row, lane += kWidth) {"),
        ("src/engine/cpu/tile.hpp", "      if (!piece.closes) {",
         "      for (int r = 0; r < R; ++r)\n"
         "        for (int c = 0; c < C; ++c) acc[r][c] = V::add(acc[r][c], other[r][c]);\n"
         "      if (!piece.closes) {"),
    ],
}
# Where the contract of verify's defaults does not hold the broken thing, the contract that does.
VERIFY = {"double rounding": ["--contract", "f32-tree-v1"]}


def change(source, file, text, replacement):
    path = source / file
    body = path.read_text()
    if body.count(text) != 1:
        sys.exit(f"{file}: '{text[:50]}' stands there {body.count(text)} times, not once: mend this script")
    path.write_text(body.replace(text, replacement))


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)


def failing_tests(build):
    failing = []
    for test in TESTS:
        binary = build / "tests" / test
        if not binary.exists():
            sys.exit(f"{binary} was not built")
        out = run([str(binary), "--gtest_brief=1"], env={"SAMEBITS_ROUNDS": "20", "PATH": "/usr/bin:/bin"}).stdout
        failing += [f"{test.split('/')[-1]}:{name}" for name in dict.fromkeys(re.findall(r"\[  FAILED  \] ([\w.]+)", out))]
    return failing


def failing_checks(build, flags):
    report = build / "verify.json"
    command = [str(build / "tools/samebits"), "verify", "--json", str(report), *flags]
    code = run(command).returncode
    found = json.loads(report.read_text())
    checks = []
    if any(row["status"] == "mismatch" for row in found["layouts"]):
        checks.append("layouts")
    if found["invariance"]["repeat"] or found["invariance"]["row_vs_batch"]:
        checks.append("invariance")
    if (found["golden"] or {}).get("differing", 0):
        checks.append("golden")
    if any(((found["reference"] or {}).get("mismatch") or {}).values()):
        checks.append("reference")
    return code, checks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="run the mutant of this name alone")
    parser.add_argument("--build", default=str(ROOT / "build-mutants"))
    args = parser.parse_args()
    top = pathlib.Path(args.build)
    source, build = top / "source", top / "build"
    files = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], text=True).split("\n")
    survived = []
    print("| mutant | tests that fail | checks of `verify` that fail |\n|---|---|---|", flush=True)
    for name, edit in MUTANTS.items():
        if args.only and args.only != name:
            continue
        for file in filter(None, files):  # only what differs is copied, so that builds stay incremental
            here, there = ROOT / file, source / file
            if here.is_file() and (not there.exists() or here.read_bytes() != there.read_bytes()):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(here, there)
        for file, text, replacement in [edit, *EXTRA.get(name, [])]:
            change(source, file, text, replacement)
        run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DCMAKE_CXX_COMPILER_LAUNCHER="])
        built = run(["cmake", "--build", str(build), "--target", "samebits", *[t.split("/")[-1] for t in TESTS]])
        if built.returncode != 0:
            sys.exit(f"{name} does not build:\n{built.stdout[-2000:]}")
        tests = failing_tests(build)
        code, checks = failing_checks(build, VERIFY.get(name, []))
        flags = " ".join(VERIFY.get(name, []))
        print(f"| {name} | {', '.join(tests) or 'NONE'} | {', '.join(checks) or 'NONE'}{' (' + flags + ')' if flags else ''} |", flush=True)
        if not tests or code != 1:
            survived.append(name)
    if survived:
        sys.exit(f"survived: {', '.join(survived)}")


main()
