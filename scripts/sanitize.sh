#!/usr/bin/env bash
# The tests on a build with sanitizers, with fewer rounds.
# usage: bash scripts/sanitize.sh address,undefined|thread
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh
need_packages "${build_packages[@]}" "${test_packages[@]}"

kind=$1
build=build-${kind%%,*}
# The sanitizers see host code; what is compiled for a device has tools of its own (compute-sanitizer), and MPI
# libraries are not built for them.
# The command holds no threads of its own but those of the library, and is slow to compile.
[ "$kind" = thread ] && tools=-DSAMEBITS_TOOLS=OFF || tools=-DSAMEBITS_TOOLS=ON
printf '\n== %s\n' "$kind sanitizer"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1" -DSAMEBITS_SANITIZE="$kind" -DSAMEBITS_CUDA=OFF -DSAMEBITS_HIP=OFF -DSAMEBITS_MPI=OFF $tools -DSAMEBITS_TESTS=ON >/dev/null
cmake --build "$build"
# GCC misaligns vectors on the stack under detect_stack_use_after_return (its bug 110027).
export SAMEBITS_ROUNDS=8 UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=0
# ThreadSanitizer looks at what threads share; arithmetic it makes ten times slower to no purpose.
[ "$kind" = thread ] && without="slow|arithmetic" || without=slow
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -LE "$without"
