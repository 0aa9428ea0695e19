#!/usr/bin/env bash
# Builds the command once and runs `samebits verify` with the given flags.
# usage: bash scripts/verify.sh [flags of samebits verify]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

need_packages "${build_packages[@]}"
if [ ! -f build/CMakeCache.txt ]; then
  cmake -S . -B build -G Ninja -DSAMEBITS_TESTS=OFF >build.log 2>&1 || { cat build.log >&2; exit 3; }
fi
cmake --build build --target samebits >build.log 2>&1 || { cat build.log >&2; exit 3; }
rm -f build.log
exec build/tools/samebits verify "$@"
