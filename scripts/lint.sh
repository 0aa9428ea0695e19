#!/usr/bin/env bash
# clang-tidy over the sources that the given build compiled (default: build).
# usage: bash scripts/lint.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
# Files that have not changed since they were last found clean are skipped.
stamps=$build/lint
mkdir -p "$stamps"
headers=$(git ls-files '*.hpp' .clang-tidy | xargs cat | sha256sum | cut -c1-16)
todo=()
# With CUDA or without it: what this build does not compile is left out. The wheel's own build is in a folder of it.
compiled=$(grep -o '"file": "[^"]*"' "$build/compile_commands.json")
wheel=$(grep -so '"file": "[^"]*"' "$build/wheel/compile_commands.json" || true)
# The verbs include two large parsers of flags and JSON, which the analyser follows for a minute a file: lint them by hand.
for file in $(git ls-files 'src/*.cpp' 'tools/*.cpp' 'python/src/*.cpp' | grep -vE '/kernels_avx|^tools/(main|verbs|verify)'); do
  if grep -qF "\"$PWD/$file\"" <<<"$compiled"; then
    database=$build
  elif grep -qF "\"$PWD/$file\"" <<<"$wheel"; then
    database=$build/wheel
  else
    continue
  fi
  stamp=$stamps/$( { echo "$headers"; cat "$file"; } | sha256sum | cut -c1-32)
  [ -e "$stamp" ] || todo+=("$file:$stamp:$database")
done
[ ${#todo[@]} -eq 0 ] && exit 0
printf '%s\n' "${todo[@]}" | xargs -P "$(nproc)" -I{} bash -c '
  IFS=: read -r file stamp database <<<"{}"
  clang-tidy-14 -p "$database" --quiet --warnings-as-errors="*" "$file" 2>/dev/null && touch "$stamp"'
