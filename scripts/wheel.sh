#!/usr/bin/env bash
# Builds a wheel that another machine can install: fmt is compiled in, and with nvcc the CUDA engine (its runtime is linked statically).
# usage: bash scripts/wheel.sh [PYTHON] [FOLDER]
#   PYTHON   the interpreter that the wheel is for, with its headers, nanobind and scikit-build-core (python3)
#   FOLDER   where the wheel goes (build/wheels)
# The other machine needs a C library and a libstdc++ as new as this one's.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
folder=${2:-build/wheels}
version=$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi
mkdir -p "$folder"
"$python" -m pip wheel -q --no-build-isolation --no-deps --disable-pip-version-check . -w "$folder" \
  --config-settings=build-dir="build/wheel-cp$version" --config-settings=cmake.define.SAMEBITS_FMT_HEADER_ONLY=ON \
  --config-settings=cmake.define.SAMEBITS_CUDA="${SAMEBITS_CUDA:-AUTO}"
ls -l "$folder"/samebits-*-cp"$version"-*.whl
