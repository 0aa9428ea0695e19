#!/usr/bin/env python3
"""Breaks the code on purpose, one change at a time, and shows what notices.

usage: scripts/mutants.py [--only NAME] [--build DIR] [--schedules | --hip | --cuda | --prepare DIR | --prepared DIR]
Each mutant is a change that must break bits. The tree is copied to DIR/source (default build-mutants), changed, built, and
the strict tests and `samebits verify` run on it. Prints a table: mutant, tests that fail, checks of `verify` that fail.
Exit code 1 when a mutant survives the tests or verify.

With --schedules: waits left out of what overlaps. One run of `verify` may be lucky, so that late exchanges alone are asked.
With --hip: the tile kernel of the HIP engine, as the host emulates it; `verify` would want an AMD GPU and is not asked.
The mutants of the CUDA engine run with --cuda, on a machine with a GPU. Where that machine cannot build, --prepare DIR builds
them and keeps what runs, elsewhere, and --prepared DIR runs that.
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
         "invariance/invariance_accumulation", "invariance/invariance_layouts", "invariance/invariance_recorded", "invariance/invariance_environment"]

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
    "swapped node": ("src/ffn/tensor/cover_reduction.cpp",
                     "finish_[static_cast<std::size_t>(lane)][next] = {data, row_stride, merges_[next]};",
                     "const std::size_t swapped = all_nodes_ > 2 && (next == 1 || next == 2) ? 3 - next : next;\n"
                     "      finish_[static_cast<std::size_t>(lane)][swapped] = {data, row_stride, merges_[swapped]};"),
    "covers in a window over those of earlier ranks": (
        "src/ffn/tensor/cover_reduction.cpp", "before += row_bytes(rank);", "before += 0 * row_bytes(rank);"),
    "double rounding": ("src/numerics/swiglu.hpp", "  return round_bf16(gate_root + up_root);",
                        "  return round_bf16(rounded_bf16(gate_root) + up_root);"),
    "rounded accumulator": ("src/engine/cpu/tile.hpp", "      if (t.round_nodes) {\n        push_nodes",
                            "      if (!t.round_nodes) {\n        push_nodes"),
    "contraction left on": ("CMakeLists.txt", "-Wno-sign-conversion;-ffp-contract=off;", "-Wno-sign-conversion;-ffp-contract=fast;-mfma;"),
    "an open leaf begun anew": ("src/engine/cpu/contraction.cpp", "    if (problem.program->resumes()) tile.resume();\n", ""),
    "merges of a sum left out": ("src/ffn/context/accumulation.cpp", "inputs_.push_back({from, nodes * sum.cols, input.merges});",
                                 "inputs_.push_back({from, nodes * sum.cols, std::min(input.merges, 1)});"),
    "flush to zero": ("src/engine/fp_environment.hpp", "_mm_setcsr(0x1F80);", "_mm_setcsr(0x9FC0);"),
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
# Of the schedules that overlap: an exchange or a queue that is not waited for, a buffer too few.
PLAN, COVERS, LANE = "src/ffn/plan.cpp", "src/ffn/tensor/cover_reduction.cpp", "src/ffn/rank/exchange_lane.cpp"
SCHEDULE_MUTANTS = {
    "covers finished before they arrive": (
        COVERS, "  exchanges_.wait(tickets_[static_cast<std::size_t>((chunk + 1) * lanes_ - 1) % kOnTheirWay], queue);\n", ""),
    "dX finished before its up lane arrives": (COVERS, "((chunk + 1) * lanes_ - 1) % kOnTheirWay]", "(chunk * lanes_) % kOnTheirWay]"),
    "covers made where others are sent from": (COVERS, "  if (put_ >= sends) exchanges_.wait(", "  if (put_ < 0) exchanges_.wait("),
    "one buffer for the first lane": (COVERS, "i < (chunked_ && lane == 0 ? 2 : 1)", "i < 1"),
    "one slice of finished rows": (COVERS, "i < (chunked_ ? 2 : 1) && !slices_only_", "i < 1 && !slices_only_"),
    "covers in windows finished without word of them": (COVERS, "if (++put_ < lanes_) return;", "if (++put_ <= lanes_) return;"),
    "one shots that receive in windows": (COVERS, "  if (windowed_) return windows_[", "  if (!windows_.empty()) return windows_["),
    "the gathers of earlier chunks forgotten": (
        COVERS, "    block.finish({gate, up, out}, queue);\n    return last_gather_;", "    block.finish({gate, up, out}, queue);\n    return {};"),
    "tokens contracted before they arrive": (
        "src/ffn/context/token_reduction.cpp", "  exchanges_.wait(operands_[slot].arrival, queue);\n", "  static_cast<void>(queue);\n"),
    "by rows, A used before it arrives": (
        "src/ffn/forward.cpp", "exchanges->wait(gather_intermediate->all_rows(saved.act, all, call.queue), call.queue);",
        "gather_intermediate->all_rows(saved.act, all, call.queue);"),
    "by rows, dG and dU used before they arrive": (
        "src/ffn/backward.cpp", "      exchanges->wait(gathered, call.queue);\n", "      static_cast<void>(gathered);\n"),
    "x and dY used before they arrive": (PLAN, "  exchanges->wait(tokens.arrival, call.queue);\n", "  static_cast<void>(call);\n"),
    "y copied before it arrives": (PLAN, "  exchanges->wait(arrival, call.queue);\n", "  static_cast<void>(arrival);\n"),
    "a packed copy over one that travels": (PLAN, "  exchanges->wait(pack_reader, call.queue);\n", "  static_cast<void>(call);\n"),
    "thread: waiting for one too few": (LANE, "return done_ >= ticket.number;", "return done_ + 1 >= ticket.number;"),
    "queue: exchanges that do not wait for what is computed": (LANE, "    engine_.wait(queue, ready_.get());\n", ""),
    "queue: waiting for nothing": (LANE, "if (ticket.number > joined_) engine_.wait(", "if (ticket.number > joined_ + put_) engine_.wait("),
    "queue: calls that do not wait at their end": (
        LANE, "    do_wait({put_}, compute);\n    joined_ = put_;", "    static_cast<void>(compute);\n    joined_ = put_;"),
}
SCHEDULE_TESTS = ["invariance/invariance_overlap", "unit/ffn/unit_ffn"]
# Of the HIP engine's tile kernel, as the host emulates it.
LAYOUT, THREAD, TILE_RUN = "src/engine/hip/tile_layout.hpp", "src/engine/hip/tile_thread.hpp", "src/engine/hip/tile_run.hpp"
HIP_MUTANTS = {
    "hip: two lanes of a fragment swapped": (
        LAYOUT, "fragment_line(int lane) { return lane % kFragment; }",
        "fragment_line(int lane) { return (lane % kFragment == 6 || lane % kFragment == 7 ? lane ^ 1 : lane) % kFragment; }"),
    "hip: two rows of a lane's results swapped": (
        LAYOUT, "i / 4 * 8 + lane / kFragment * 4 + i % 4; }", "i / 4 * 8 + lane / kFragment * 4 + (i % 4 ^ 1); }"),
    "hip: neighbours of a column operand swapped": (THREAD, "to[at.outer + i][at.k] =", "to[at.outer + (i ^ 1)][at.k] ="),
    "hip: last group of a leaf dropped": (TILE_RUN, "step < (count + 15) / 16 * 2;", "step < count / 16 * 2;"),
    "hip: one k too many of an fma leaf": (THREAD, "if (k >= count) break;", "if (k >= count + 1) break;"),
    "hip: a lane rounded first": (THREAD, "numerics::add_lanes(lanes, gate, up)", "numerics::add_lanes(lanes == Precision::f32 ? Precision::bf16 : lanes, gate, up)"),
    "hip: an open leaf begun anew": (TILE_RUN, "if (carried.resumes && i == 0) {", "if (carried.resumes && i < 0) {"),
    "hip: accumulators of f32 trees rounded": (TILE_RUN, "mine.round(args.bf16_nodes);", "mine.round(true);"),
}
HIP_TESTS = ["invariance/invariance_emulated_tiles"]
# Of the CUDA engine: what its kernels are told, and each family of kernels in turn.
CUDA_MUTANTS = {
    "cuda: a merge too late": (
        "src/engine/cuda/leaves.cpp", "  int height = 0;\n  for (std::size_t i = 0; i < steps_.size() - (stays_open_ ? 1 : 0); ++i) {",
        "  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {\n"
        "    if (steps_[i].merges() == 0 || steps_[i].emits() || steps_[i + 1].emits()) continue;\n"
        "    steps_[i].word -= 1;\n"
        "    steps_[i + 1].word += 1;\n"
        "    break;\n"
        "  }\n"
        "  int height = 0;\n  for (std::size_t i = 0; i < steps_.size() - (stays_open_ ? 1 : 0); ++i) {"),
    "cuda: a boundary 16 late": (
        "src/engine/cuda/leaves.cpp", "  int height = 0;\n  for (std::size_t i = 0; i < steps_.size() - (stays_open_ ? 1 : 0); ++i) {",
        "  if (steps_.size() > 1 && steps_[1].length() > 16) {\n"
        "    steps_[0].word += 16u << 7;\n"
        "    steps_[1].word -= 16u << 7;\n"
        "  }\n"
        "  int height = 0;\n  for (std::size_t i = 0; i < steps_.size() - (stays_open_ ? 1 : 0); ++i) {"),
    "cuda: plain, last part of a group dropped": (
        "src/engine/cuda/plain.cu", "for (int k = 0; k < leaf.length(); k += kChunk) {",
        "for (int k = 0; k + kChunk <= leaf.length(); k += kChunk) {"),
    "cuda: plain, a node rounded twice": (
        "src/engine/cuda/nodes.cuh", "value[i] = as_node(bf16_nodes, from[i * stride] + value[i]);",
        "value[i] = as_node(bf16_nodes, numerics::rounded_bf16(from[i * stride]) + value[i]);"),
    "cuda: sm90 tiles, last k group of a leaf dropped": (
        "src/engine/cuda/sm90/tiles.cuh", "for (int s = 0; s * 16 < rest; ++s) {", "for (int s = 0; s * 16 + 16 < rest; ++s) {"),
    "cuda: sm90 tiles, a lane rounded first": (
        "src/engine/cuda/sm90/tiles.cuh", "[](float gate, float up) { return gate + up; }",
        "[](float gate, float up) { return numerics::rounded_bf16(gate) + up; }"),
    "cuda: sm90 tiles, sigma of the next gate": (
        "src/engine/cuda/sm90/sigma_cache.cuh", "shared_address(shared) - kLeastGate * 4", "shared_address(shared) - kLeastGate * 4 + 4"),
    "cuda: sm90 tiles, columns of a box swapped": (
        "src/engine/cuda/sm90/boxes.cuh", "(static_cast<std::uint32_t>(pair / 2) * 16) ^ turn", "(static_cast<std::uint32_t>(pair / 2) * 16) ^ turn ^ 16"),
    "cuda: sm90 stream, last k group of a leaf dropped": (
        "src/engine/cuda/sm90/stream.cuh", "fragments.multiply(acc, (left + 15) / 16 - step);",
        "fragments.multiply(acc, left / 16 - step);"),
    "cuda: sm90 stream, a lane rounded first": (
        "src/engine/cuda/sm90/stream.cuh", "                                                  : gate + up;",
        "                                                  : numerics::rounded_bf16(gate) + up;"),
    "cuda: fma nodes rounded in f32 trees": (
        "src/engine/cuda/fma/words.cuh", "        word[i] = __float_as_uint(acc[i]);",
        "        word[i] = __float_as_uint(numerics::rounded_bf16(acc[i]));"),
    "cuda: fma stream, last k of a leaf dropped": (
        "src/engine/cuda/fma/stream.cuh", "        chains.single(k);", "        if (left > 1) chains.single(k);"),
    "cuda: fma stream, lanes rounded": (
        "src/engine/cuda/fma/finish.cu", "numerics::add_lanes(args.lanes, gate_root, top)",
        "numerics::add_lanes(Precision::bf16, gate_root, top)"),
    "cuda: fma tiles, last k of a leaf dropped": (
        "src/engine/cuda/fma/tiles.cuh", "chains.run(my_left + side, my_right + side, k, n,",
        "chains.run(my_left + side, my_right + side, k, n == left_over ? n - 1 : n,"),
    "cuda: fma tiles, lanes rounded": (
        "src/engine/cuda/fma/tiles.cuh", "stack.add_lanes(args.lanes_precision, node)", "stack.add_lanes(Precision::bf16, node)"),
}
CUDA_TEST = "invariance/invariance_cuda"
CUDA_FILTER = "CudaSmall.*:Cuda.EveryTokenCount*:Cuda.EveryKindOfValue:Cuda.EveryNamedLayout:Cuda.LongAxes:CudaCalls.LayersInOneStream"
CUDA_VERIFY = ["--engine", "cuda", "--contract", "sm90-v1", "--shape", "520x1552", "--tokens", "200"]

# Where the contract of verify's defaults does not hold the broken thing, the contract that does.
FMA_VERIFY = ["--engine", "cuda", "--contract", "f32-tree-v1", "--shape", "520x1556", "--tokens"]
VERIFY = {
    "double rounding": ["--contract", "f32-tree-v1"],
    "an open leaf begun anew": ["--shape", "64x208", "--micro-batches", "4"],
    "merges of a sum left out": ["--contract", "sm90-v1,T=block:16", "--shape", "64x208", "--tokens", "128", "--micro-batches", "8"],
    "cuda: plain, last part of a group dropped": ["--engine", "cuda", "--contract", "f32-tree-v1", "--shape", "53x91", "--tokens", "33"],
    "cuda: plain, a node rounded twice": ["--engine", "cuda", "--contract", "f32-tree-v1", "--shape", "203x1555", "--tokens", "65"],
    "cuda: sm90 stream, last k group of a leaf dropped": [*CUDA_VERIFY[:-1], "32"],
    "cuda: sm90 stream, a lane rounded first": [*CUDA_VERIFY[:-1], "32"],
    "cuda: fma nodes rounded in f32 trees": [*FMA_VERIFY, "200"],
    "cuda: fma stream, last k of a leaf dropped": [*FMA_VERIFY, "20"],
    "cuda: fma stream, lanes rounded": [*FMA_VERIFY, "20"],
    "cuda: fma tiles, last k of a leaf dropped": [*FMA_VERIFY, "200"],
    "cuda: fma tiles, lanes rounded": [*FMA_VERIFY, "200"],
}


def change(source, file, text, replacement):
    """False where the text does not stand there once: then the mutant is to be mended."""
    path = source / file
    found = path.read_text().count(text) if path.exists() else 0
    if found != 1:
        print(f"{file}: '{text[:50]}' stands there {found} times, not once: mend this script", file=sys.stderr)
        return False
    path.write_text(path.read_text().replace(text, replacement))
    return True


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)


def failing_tests(binaries, flags, environment):
    failing = []
    for test, binary in binaries.items():
        if not binary.exists():
            sys.exit(f"{binary} was not built")
        try:
            out = run([str(binary), "--gtest_brief=1", *flags], env={**environment, "PATH": "/usr/bin:/bin"}, timeout=600).stdout
        except subprocess.TimeoutExpired:
            failing.append(f"{test.split('/')[-1]}:does not end")
            continue
        names = dict.fromkeys(re.findall(r"\[  FAILED  \] ([\w.]+)", out))
        failing += [f"{test.split('/')[-1]}:{name}" for name in names]
    return failing


def failing_checks(command, report, flags):
    command = [str(command), "verify", "--json", str(report), *flags]
    report.unlink(missing_ok=True)
    code = run(command).returncode
    if not report.exists():
        return code, []
    found = json.loads(report.read_text())
    checks = []
    if any(row["status"] == "mismatch" for row in found["layouts"]):
        checks.append("layouts")
    if found["invariance"]["repeat"] or found["invariance"]["row_vs_batch"]:
        checks.append("invariance")
    if (found["invariance"]["micro_batches"] or {}).get("gradients", 0):
        checks.append("micro-batches")
    if (found["golden"] or {}).get("differing", 0):
        checks.append("golden")
    if any(((found["reference"] or {}).get("mismatch") or {}).values()):
        checks.append("reference")
    return code, checks


def copy_tree(source):
    files = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], text=True).split("\n")
    for file in filter(None, files):  # only what differs is copied, so that builds stay incremental
        here, there = ROOT / file, source / file
        if here.is_file() and (not there.exists() or here.read_bytes() != there.read_bytes()):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, there)


def build_mutant(name, edits, source, build, cuda, tests):
    copy_tree(source)
    if not all([change(source, *edit) for edit in edits]):
        return None
    run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DCMAKE_CXX_COMPILER_LAUNCHER=", f"-DSAMEBITS_CUDA={'ON' if cuda else 'OFF'}", "-DSAMEBITS_HIP=OFF"])
    built = run(["cmake", "--build", str(build), "--target", "samebits", *[t.split("/")[-1] for t in tests]])
    if built.returncode != 0:
        sys.exit(f"{name} does not build:\n{built.stdout[-2000:]}")
    return {t: build / "tests" / t for t in tests}, build / "tools/samebits"


def run_mutant(name, binaries, command, folder, cuda):
    """One line of the table; whether the mutant was noticed by the tests and by verify."""
    if cuda:
        tests = failing_tests(binaries, [f"--gtest_filter={CUDA_FILTER}"], {"SAMEBITS_REQUIRE_CUDA": "1"})
    else:
        tests = failing_tests(binaries, [], {"SAMEBITS_ROUNDS": "20"})
    flags = VERIFY.get(name, CUDA_VERIFY if cuda else [])
    code, checks = failing_checks(command, folder / "verify.json", flags)
    shown = f" ({' '.join(flags)})" if flags else ""
    print(f"| {name} | {', '.join(tests) or 'NONE'} | {', '.join(checks) or 'NONE'}{shown} |", flush=True)
    return bool(tests) and code == 1


def run_tests_alone(name, binaries):
    tests = failing_tests(binaries, [], {"SAMEBITS_ROUNDS": "1000"})
    print(f"| {name} | {', '.join(tests) or 'NONE'} | not asked |", flush=True)
    return bool(tests)


def slug(name):
    return re.sub(r"\W+", "_", name)


def keep(folder, binaries, command):
    folder.mkdir(parents=True, exist_ok=True)
    for binary in [*binaries.values(), command]:
        subprocess.check_call(["strip", "-o", str(folder / binary.name), str(binary)])


def has_gpu():
    return shutil.which("nvidia-smi") is not None and run(["nvidia-smi", "-L"]).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="run the mutant of this name alone")
    parser.add_argument("--build", default=str(ROOT / "build-mutants"))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--schedules", action="store_true", help="the mutants of the schedules that overlap")
    which.add_argument("--hip", action="store_true", help="the mutants of the HIP engine's tiles")
    which.add_argument("--cuda", action="store_true", help="the mutants of the CUDA engine")
    which.add_argument("--prepare", metavar="DIR", help="build those into DIR and run nothing")
    which.add_argument("--prepared", metavar="DIR", help="run what --prepare built")
    args = parser.parse_args()
    cuda = bool(args.cuda or args.prepare or args.prepared)
    if cuda and not args.prepare and not has_gpu():
        sys.exit("the mutants of the CUDA engine need a GPU: nvidia-smi shows none")
    top = pathlib.Path(args.build)
    survived = []
    if not args.prepare:
        print("| mutant | tests that fail | checks of `verify` that fail |\n|---|---|---|", flush=True)
    mutants, tests = MUTANTS, TESTS
    if args.schedules:
        mutants, tests = SCHEDULE_MUTANTS, SCHEDULE_TESTS
    elif args.hip:
        mutants, tests = HIP_MUTANTS, HIP_TESTS
    elif cuda:
        mutants, tests = CUDA_MUTANTS, [CUDA_TEST]
    for name, edit in mutants.items():
        if args.only and args.only != name:
            continue
        if args.prepared:
            folder = pathlib.Path(args.prepared) / slug(name)
            binaries, command = {CUDA_TEST: folder / pathlib.Path(CUDA_TEST).name}, folder / "samebits"
        else:
            folder = top / ("build-cuda" if cuda else "build")
            built = build_mutant(name, [edit, *EXTRA.get(name, [])], top / "source", folder, cuda, tests)
            if built is None:
                survived.append(name)
                continue
            binaries, command = built
        if args.prepare:
            keep(pathlib.Path(args.prepare) / slug(name), binaries, command)
        elif args.schedules or args.hip:
            if not run_tests_alone(name, binaries):
                survived.append(name)
        elif not run_mutant(name, binaries, command, folder, cuda):
            survived.append(name)
    if survived:
        sys.exit(f"survived: {', '.join(survived)}")


main()
