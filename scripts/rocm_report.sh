#!/usr/bin/env bash
# On a machine with an MI300X: settles what docs/rocm.md calls open, and prints one report to paste into an issue.
# usage: bash scripts/rocm_report.sh [BUILD]     BUILD (default build-rocm) is made where it is not there
# Wants ROCm 6 or 7, the packages of scripts/packages.sh and, for PyTorch's part, python3 with torch and safetensors.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-rocm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
samebits=$build/tools/samebits
: >"$work/rows"

# step NAME COMMAND...: runs it, keeps what it says, and a row of the table: held, differs (1), refused (2), no environment (3).
step() {
  local name=$1 code said
  shift
  printf '== %s\n' "$name" >&2
  "$@" >"$work/said" 2>&1
  code=$?
  case $code in 0) said=held ;; 1) said=DIFFERS ;; 2) said=refused ;; 3) said="no environment" ;; *) said="failed ($code)" ;; esac
  printf '| %s | %s |\n' "$name" "$said" >>"$work/rows"
  { printf '\n### %s: %s\n\n    $ %s\n\n' "$name" "$said" "$*" | cut -c1-400; tail -n 60 "$work/said" | cut -c1-200 | sed 's/^/    /'; } >>"$work/details"
  return "$code"
}

builds() {
  [ -x "$samebits" ] && return 0
  cmake -S . -B "$build" -G Ninja -DSAMEBITS_HIP=ON -DSAMEBITS_CUDA=OFF -DSAMEBITS_TESTS=ON && cmake --build "$build"
}

machine() {
  uname -srm
  cat "${ROCM_PATH:-/opt/rocm}/.info/version" 2>/dev/null
  command -v rocminfo >/dev/null && rocminfo | grep -E 'Marketing Name|gfx' | sort | uniq -c
  git log -1 --format='samebits %h of %cs' 2>/dev/null
  "$samebits" info
}

# Is PyTorch's bf16 product the chain of a single-leaf contract? x is the identity and every gate 128, whose sigma is 1, so that A is any
# matrix we please and y its product with down, made by PyTorch; verify holds that y against the contract on the CPU.
products() {
  python3 - "$samebits" "$work" "$1" <<'PYTHON'
import json, subprocess, sys
try:
    import torch
    from safetensors.torch import save_file
except ImportError as missing:
    print(missing)
    sys.exit(3)
binary, work, contract = sys.argv[1:]
if not torch.cuda.is_available():
    print("PyTorch sees no GPU")
    sys.exit(3)
print(torch.__version__, torch.cuda.get_device_name(0))
worst = 0
for seed, (tokens, inner) in enumerate([(64, 256), (128, 1536), (512, 1536), (512, 4096), (1024, 12288)]):
    torch.manual_seed(seed)
    a = torch.randn(tokens, inner, device="cuda").bfloat16()
    down = (torch.randn(tokens, inner, device="cuda") * 0.02).bfloat16()
    weights = {"gate_proj": torch.full((inner, tokens), 128.0, device="cuda").bfloat16(), "up_proj": (a.T.float() / 128).bfloat16(),
               "down_proj": down}
    save_file({f"model.layers.0.mlp.{k}.weight": v.contiguous().cpu() for k, v in weights.items()}, f"{work}/model.safetensors")
    with open(f"{work}/config.json", "w") as config:
        json.dump({"hidden_size": tokens, "intermediate_size": inner, "hidden_act": "silu"}, config)
    eye = torch.eye(tokens, device="cuda").bfloat16()
    save_file({"x": eye.cpu(), "dy": torch.zeros_like(eye).cpu(), "y": (a @ down.T).cpu()}, f"{work}/recording.safetensors")
    done = subprocess.run([binary, "verify", "--engine", "cpu", "--contract", contract, "--checkpoint", work, "--layer", "0", "--recording",
                           f"{work}/recording.safetensors", "--layouts", "tp1", "--no-reference", "--json", "-"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(done.stderr)
        sys.exit(4)
    differing = sum(json.loads(done.stdout)["recording"]["mismatch"].values())
    worst += differing
    print(f"{tokens} x {tokens} x {inner}: {differing} of {tokens * tokens} elements differ")
sys.exit(1 if worst else 0)
PYTHON
}

# A rank a GPU, up to eight. 1 only where verify has run and says so: mpirun has a 1 of its own.
processes() {
  local gpus code
  gpus=$("$samebits" info | grep -c '^device ')
  if [ "$gpus" -lt 2 ] || ! command -v mpirun; then
    echo "mpirun and at least two GPUs are wanted; GPUs here: $gpus"
    return 3
  fi
  mpirun --allow-run-as-root --oversubscribe -np $((gpus < 8 ? gpus : 8)) "$samebits" verify --engine hip --contract gfx942-v1 --transport nccl \
    --json "$work/processes.json"
  code=$?
  [ "$code" -ne 1 ] || [ -s "$work/processes.json" ] || code=4
  return "$code"
}

if step "build" builds; then
  step "machine" machine
  step "engine against the reference, every stage, layout and kind of value" env SAMEBITS_REQUIRE_HIP=1 ctest --test-dir "$build" -L gpu -R _hip --output-on-failure
  step "emulated tiles on this CPU" ctest --test-dir "$build" -R invariance_emulated_tiles --output-on-failure
  step "kernels: scratch, v_mfma, occupancy" ctest --test-dir "$build" -R package_hip_kernels --output-on-failure
  step "eight layouts, bf16-tree-v1, qwen3-8b" "$samebits" verify --engine hip
  step "eight layouts, f32-tree-v1, small" "$samebits" verify --engine hip --contract f32-tree-v1 --shape 1024x3072 --tokens 200
  step "published model of the matrix cores: gfx942-v1, small" "$samebits" verify --engine hip --contract gfx942-v1 --shape 520x1552 --tokens 200
  step "eight layouts, gfx942-v1, qwen3-8b" "$samebits" verify --engine hip --contract gfx942-v1
  step "a process a GPU, over RCCL" processes
  step "PyTorch's bf16 product is one gfx942 chain" products "gfx942-v1,I=halve:0"
  step "control: PyTorch's bf16 product is one sm90 chain" products "sm90-v1,I=halve:0"
fi
printf '\n## samebits on ROCm\n\n| check | result |\n|---|---|\n'
cat "$work/rows" "$work/details"
! grep -qE 'DIFFERS|failed' "$work/rows"
