"""Microseconds of CPU time that an eager call of one token costs, beside an empty custom operator's. Writes JSON.

usage: python_overhead.py FILE
"""

import json
import sys
import time

import torch

import samebits
import samebits.torch

HIDDEN, INTERMEDIATE = 256, 768  # small: the GPU is never waited for
CALLS, ROUNDS = 200, 30
LIMIT_US = 25


@torch.library.custom_op("samebits_probe::empty", mutates_args=())
def empty(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, contract: str) -> torch.Tensor:
    return torch.empty_like(x)


def microseconds(call):
    """The median round's mean."""
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - begin) / CALLS * 1e6)
    return sorted(rounds)[ROUNDS // 2]


def main():
    empty.register_fake(lambda x, *others: torch.empty_like(x))
    empty.register_autograd(lambda context, dy: (dy, None, None, None, None))
    x = torch.randn(1, HIDDEN, device="cuda").bfloat16()
    weights = [torch.randn(*shape, device="cuda").bfloat16() for shape in ((INTERMEDIATE, HIDDEN),) * 2 + ((HIDDEN, INTERMEDIATE),)]
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "samebits": samebits.__version__, "limit_us": LIMIT_US}
    with torch.no_grad():
        # All three by their overload, as a library calls its own: to look it up takes microseconds of its own.
        nothing, block = torch.ops.samebits_probe.empty.default, torch.ops.samebits.ffn.default
        result["empty_custom_op_us"] = microseconds(lambda: nothing(x, *weights, "sm90-v1"))
        result["operator_us"] = microseconds(lambda: block(x, *weights, "sm90-v1"))
        result["function_us"] = microseconds(lambda: samebits.torch.ffn(x, *weights, "sm90-v1"))
    result["beyond_empty_us"] = result["function_us"] - result["empty_custom_op_us"]
    result["ok"] = result["beyond_empty_us"] < LIMIT_US
    with open(sys.argv[1], "w") as out:
        json.dump(result, out, indent=1)
    print("  ".join(f"{name} {value:.1f}" for name, value in result.items() if name.endswith("_us")))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
