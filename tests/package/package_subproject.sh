#!/usr/bin/env bash
# samebits as a subdirectory of another project: it configures, and leaves the project's own choices alone.
# usage: package_subproject.sh CMAKE WORK
set -euo pipefail
cmake=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
fail() { echo "package_subproject: $*" >&2; exit 1; }

rm -rf "$work"
mkdir -p "$work"
"$cmake" -S "$here/consumer" -B "$work" -DSAMEBITS_SOURCE="$source" \
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "does not configure"; }

commands=$(grep '"command"' "$work/compile_commands.json")
ours=$(grep -F "$source/src/" <<<"$commands") || fail "no source of ours is compiled"
theirs=$(grep -F "$here/consumer/main.cpp" <<<"$commands")
! grep -- '-Werror' <<<"$ours" || fail "our warnings would stop another project's build"
! grep -v -- '-ffp-contract=off' <<<"$ours" || fail "sources compiled without -ffp-contract=off"
! grep -E -- "-ffp-contract|-fvisibility|-Wconversion|$source/src( |\")" <<<"$theirs" || fail "our own flags reached the consumer"
! grep -E "$source/(tests|tools)/[^p]" <<<"$commands" || fail "tests or tools are built unasked"
grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$work/CMakeCache.txt" || fail "the build type was chosen for the project"
! grep -q include/samebits "$work/samebits/cmake_install.cmake" || fail "samebits would install itself with the project"
echo "$(wc -l <<<"$ours") sources of ours, $(wc -l <<<"$theirs") of theirs"
