#!/usr/bin/env bash
# Builds everything and runs every test: format, lint, unit, invariance, accuracy, golden, failure, package.
# usage: bash scripts/test.sh [arguments of ctest, for instance -R invariance]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

need_packages "${build_packages[@]}" "${test_packages[@]}"
# The HIP engine, wherever its compiler can be had.
if has_packages "${hip_packages[@]}"; then need_packages "${hip_packages[@]}"; fi
step() { printf '\n== %s\n' "$*"; }

step "format"
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.hip' | xargs clang-format-14 --dry-run -Werror

# The tests in Python run where PyPI's safetensors is installed.
python=$PWD/build/venv/bin/python3
if [ ! -x "$python" ]; then
  mkdir -p build
  python3 -m venv build/venv
  "$python" -m pip install -q numpy ml-dtypes safetensors
fi

step "build"
cmake -S . -B build -G Ninja -DSAMEBITS_TESTS=ON -DPython3_EXECUTABLE="$python" >/dev/null
cmake --build build

step "lint"
bash scripts/lint.sh build

step "tests"
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
