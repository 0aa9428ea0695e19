#!/usr/bin/env bash
# The Python package on a Hopper GPU: opcheck, compile and capture tests, digests, Hugging Face's state dict and bits, the cost of a call, ratios.
# usage: bash tests/hardware/python_gpu_checks.sh [WHEEL|build] [FOLDER] [PART...]     (default: build, build/python-gpu, all parts)
#   WHEEL   made for this machine's Python by scripts/wheel.sh; `build` makes one here, which needs nanobind, scikit-build-core, fmt,
#           nlohmann-json and xxHash
#   FOLDER  for logs, JSON reports, a table (checks.txt), and the installed package (FOLDER/site)
#   parts   tests overhead exactness ratio example; tests-processes (a GPU for each of 2 or 4 ranks)
# Needs python3 with torch, numpy, ml-dtypes and pytest; for Hugging Face's columns transformers, for figures matplotlib. No network.
# SAMEBITS_TOKENS: those of the ratios (1,8,32,128,512,2048,8192). Exit code 1 when a part failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
wheel=${1:-build}
folder=$(mkdir -p "${2:-build/python-gpu}" && cd "${2:-build/python-gpu}" && pwd)
shift $(($# < 2 ? $# : 2))
parts=("$@")
[ ${#parts[@]} -eq 0 ] && parts=(tests overhead exactness ratio example)
python=${PYTHON:-python3}
export SAMEBITS_REQUIRE_CUDA=1 PYTHONDONTWRITEBYTECODE=1

if [ "$wheel" = build ]; then
  bash scripts/wheel.sh "$python" "$folder/wheels" || exit 3
  wheel=$(ls -t "$folder"/wheels/samebits-*.whl | head -n 1)
fi
rm -rf "$folder/site"
"$python" -m pip install -q --no-index --no-deps --no-compile --target "$folder/site" "$wheel" || exit 3
export PYTHONPATH=$folder/site${PYTHONPATH:+:$PYTHONPATH}
"$python" -c 'import samebits, torch, json; print(torch.__version__, torch.cuda.get_device_name(), json.dumps(samebits.cuda_status()))' || exit 3

table=()
failed=0
check() {  # NAME COMMAND...: into a log, and a row with the log's last line
  local name=$1 start=$SECONDS log=$folder/$1.log verdict=passed
  shift
  echo "== $name: $*"
  "$@" >"$log" 2>&1 || { verdict=failed; failed=1; tail -n 40 "$log"; }
  table+=("$(printf '%-22s %-7s %5ss  %s' "$name" "$verdict" $((SECONDS - start)) "$(tail -n 1 "$log")")")
}
in_tests() { (cd tests/python && "$python" "$@"); }
processes() { in_tests -m torch.distributed.run --standalone --nproc-per-node "$("$python" -c 'import torch; print(4 if torch.cuda.device_count() >= 4 else 2)')" torch_ranks.py --cuda; }
bench() { "$python" -m samebits.bench "$@"; }
tokens=${SAMEBITS_TOKENS:-1,8,32,128,512,2048,8192}

for part in "${parts[@]}"; do
  case $part in
    tests)
      check tests-cuda in_tests -m pytest -p no:cacheprovider test_torch_cuda.py
      check tests-torch in_tests -m pytest -p no:cacheprovider test_torch_operators.py test_torch_modules.py test_torch_hugging_face.py test_torch_parallel.py
      check tests-core in_tests -m pytest -p no:cacheprovider test_golden.py test_arrays.py test_layouts.py
      ;;
    tests-processes) check tests-processes processes ;;
    overhead) check overhead "$python" tests/hardware/python_overhead.py "$folder/overhead.json" ;;
    exactness)
      for contract in sm90-v1 hf-sm90-v1; do
        check "exactness-$contract" bench --experiments exactness,accuracy --contract $contract --json "$folder/exactness-$contract.json"
      done
      ;;
    ratio)
      for contract in sm90-v1 hf-sm90-v1; do
        check "ratio-$contract" bench --experiments latency --contract $contract --tokens "$tokens" --json "$folder/ratio-$contract.json" \
          --csv "$folder/ratio-$contract.csv"
        cat "$folder/ratio-$contract.log"
      done
      ;;
    example) check example "$python" examples/rollout_and_trainer.py ;;
    *) echo "no such part: $part" >&2; exit 2 ;;
  esac
done
printf '%s\n' "${table[@]}" | tee "$folder/checks.txt"
exit $failed
