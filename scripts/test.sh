#!/usr/bin/env bash
# Builds everything and runs every test: format, lint, unit, invariance, accuracy, golden, failure, package, Python.
# usage: [SAMEBITS_TORCH=0] bash scripts/test.sh [arguments of ctest, for instance -R invariance]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

need_packages "${build_packages[@]}" "${test_packages[@]}"
# The HIP engine, wherever its compiler can be had.
if has_packages "${hip_packages[@]}"; then need_packages "${hip_packages[@]}"; fi
step() { printf '\n== %s\n' "$*"; }

step "format"
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.hip' | xargs clang-format-14 --dry-run -Werror

# The wheel is made of the library's sources a second time: ccache knows the objects from the first.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi
export CXX=${CXX:-c++}

# The tests in Python run here, and the wheel is built with what is installed here.
python=$PWD/build/venv/bin/python3
needs=(numpy ml-dtypes safetensors pytest nanobind==3.1.0 scikit-build-core)  # nanobind writes signatures that a page is compared with
if ! "$python" -c 'import numpy, ml_dtypes, safetensors, pytest, nanobind, scikit_build_core' 2>/dev/null; then
  mkdir -p build
  [ -x "$python" ] || python3 -m venv build/venv
  "$python" -m pip install -q "${needs[@]}"
fi

# PyTorch for its tests, 7 GB: left out with SAMEBITS_TORCH=0, and where there is no room. There is no smaller build for Linux in the
# default package index; this one runs without a GPU.
torch_needs=(torch==2.9.1 transformers==5.24.0 matplotlib)
if [ "${SAMEBITS_TORCH:-1}" != 0 ] && ! "$python" -c 'import torch, transformers, matplotlib' 2>/dev/null; then
  free=$(df --output=avail -k build | tail -n 1)
  if [ "$free" -ge $((12 << 20)) ]; then
    "$python" -m pip install -q --no-cache-dir "${torch_needs[@]}" || echo "PyTorch could not be installed: its tests are skipped" >&2
  else
    echo "less than 12 GB are free: no PyTorch, and its tests are skipped" >&2
  fi
fi

step "build"
cmake -S . -B build -G Ninja -DSAMEBITS_TESTS=ON -DPython3_EXECUTABLE="$python" >/dev/null
cmake --build build

step "wheel"
cuda=$(sed -n 's/^SAMEBITS_CUDA:[A-Z]*=//p' build/CMakeCache.txt)
"$python" -m pip install -q --no-build-isolation --no-deps --disable-pip-version-check . --config-settings=build-dir=build/wheel \
  --config-settings=cmake.define.SAMEBITS_WERROR=ON --config-settings=cmake.define.SAMEBITS_CUDA="$cuda"

step "lint"
bash scripts/lint.sh build

step "tests"
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
