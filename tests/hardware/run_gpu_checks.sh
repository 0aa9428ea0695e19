#!/usr/bin/env bash
# What is checked on a GPU by hand, after a build: the tests that need one, the recording of digests, compute-sanitizer on the
# small tests, and the tensor core instructions in the library. Prints a table last; exits 1 when a line of it failed.
# usage: bash tests/hardware/run_gpu_checks.sh [BUILD [PART...]]     (default: build, and all parts)
#   tests       all of: cuda engine layouts recorded failures unit transport golden (each a part of its own)
#   record      tests/golden/h200_digests.txt, from this GPU
#   sanitizers  all of: memcheck racecheck initcheck synccheck
#   sass        counts of instructions, a kernel file a line
# SAMEBITS_LOGS: the folder for logs (BUILD/gpu-checks). SAMEBITS_SMALL: the tests under the sanitizers (CudaSmall.*).
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
shift || true
parts=("$@")
[ ${#parts[@]} -eq 0 ] && parts=(tests record sanitizers sass)
logs=${SAMEBITS_LOGS:-$build/gpu-checks}
small=${SAMEBITS_SMALL:-CudaSmall.*}
mkdir -p "$logs"
export SAMEBITS_REQUIRE_CUDA=1  # a test that finds no device fails
table=()
failed=0

row() { table+=("$(printf '%-22s %-7s %5ss  %s' "$1" "$2" "$3" "$4")"); [ "$2" = failed ] && failed=1; return 0; }

# Runs a command into a log, ends in a row; `note` turns the log into the row's last column.
check() {
  local name=$1 note=$2 start=$SECONDS log=$logs/$1.log code
  shift 2
  echo "== $name: $*"
  "$@" >"$log" 2>&1
  code=$?
  [ $code -eq 0 ] || grep -E 'FAILED|Failure|differ|[Ee]rror|=========' "$log" | head -n 40
  row "$name" "$([ $code -eq 0 ] && echo passed || echo failed)" $((SECONDS - start)) "$($note "$log") (exit $code)"
}
tests_note() { grep -oE '\[  (PASSED|FAILED|SKIPPED)  ?\] [0-9]+ tests?' "$1" | sed 's/[][]//g' | tr -s ' ' | tr '\n' ',' | sed 's/^ //; s/,$//'; }
sanitizer_note() { echo "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY' "$1" | sed 's/=* *//' | tail -n 1); $(tests_note "$1")"; }
record_note() { tail -n 1 "$1"; }

gtest() { check "$1" tests_note "$build/tests/$2" --gtest_filter="$3"; }
sanitize() {
  local tool=$1
  shift
  if ! command -v compute-sanitizer >/dev/null; then row "$tool" failed 0 "no compute-sanitizer in PATH"; return; fi
  check "$tool" sanitizer_note compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" "$build/tests/invariance/invariance_cuda" --gtest_filter="$small"
}
sass() {
  local object name count folder=$build/CMakeFiles/samebits_objects.dir/src/engine/cuda
  if ! command -v cuobjdump >/dev/null; then row sass failed 0 "no cuobjdump in PATH"; return; fi
  local -i total=0
  for object in "$folder"/*.cu.o "$folder"/*/*.cu.o; do
    name=${object#"$folder"/}
    name=${name%.cu.o}
    local text=$logs/${name/\//_}.cu.o.sass start=$SECONDS
    cuobjdump -sass "$object" >"$text" 2>&1
    count=$(grep -cE '\bHGMMA' "$text")
    total+=$count
    row "sass $name" counted $((SECONDS - start)) "HGMMA $count, HMMA $(grep -cE '\bHMMA' "$text"), FFMA $(grep -cE '\bFFMA' "$text"), UTMALDG $(grep -cE '\bUTMALDG' "$text"), local loads $(grep -cE '\bLDL' "$text")"
  done
  row "sass HGMMA" "$([ "$total" -gt 0 ] && echo passed || echo failed)" 0 "$total in all"
}

run_part() {
  case $1 in
    tests) for part in cuda engine layouts recorded failures unit transport golden; do run_part $part; done ;;
    cuda) gtest cuda invariance/invariance_cuda "${SAMEBITS_FILTER:-*}" ;;
    engine) gtest engine invariance/invariance_engine '*/cuda*' ;;
    layouts) gtest layouts invariance/invariance_layouts '*/cuda*' ;;
    recorded) gtest recorded invariance/invariance_recorded '*/cuda*' ;;
    failures) gtest failures failure/ffn/failure_cuda '*' ;;
    unit) gtest unit unit/ffn/unit_ffn '*OnAGpu*' ;;
    transport) gtest transport unit/transport/unit_transport_cuda '*' ;;
    golden) gtest golden golden/golden_devices '*' ;;
    record) check record record_note "$build/tests/golden/record_digests" tests/golden/h200_digests.txt ;;
    sanitizers) for part in memcheck racecheck initcheck synccheck; do run_part $part; done ;;
    memcheck | racecheck | synccheck) sanitize "$1" ;;
    initcheck) sanitize initcheck --track-unused-memory no ;;
    sass) sass ;;
    *) echo "no part '$1'" >&2; exit 2 ;;
  esac
}
for part in "${parts[@]}"; do run_part "$part"; done

echo
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
printf '%s\n' "${table[@]}"
exit $failed
