"""What a report says of the machine, and what it can do at most."""

import os
import platform
import shlex
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

import torch

from .. import __version__, best_isa


def environment(device: str) -> Dict[str, Any]:
    out: Dict[str, Any] = {
        "os": f"{_os_name()}, {platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu_model(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command_line": shlex.join(["python", "-m", "samebits.bench", *sys.argv[1:]]),
        "engine": "cuda" if device.startswith("cuda") else "cpu",
        "transport": "local",
        "isa": None if device.startswith("cuda") else best_isa(),
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "device": None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "samebits": __version__,
    }
    if device.startswith("cuda"):
        index = torch.device(device).index or 0
        out["device"] = {
            "engine": "cuda", "index": index, "name": torch.cuda.get_device_name(index),
            "compute_capability": ".".join(map(str, torch.cuda.get_device_capability(index))),
            "memory_bytes": torch.cuda.get_device_properties(index).total_memory, "driver": _driver(), "runtime": torch.version.cuda,
        }  # fmt: skip
    return out


def ceiling(device: str) -> Dict[str, Any]:
    """Bytes a second of a copy (read and write), of a read, and FLOP a second of one large product in bf16: the best of a few."""
    cuda = device.startswith("cuda")
    elements = 1 << (30 if cuda else 25)
    source = torch.ones(elements, dtype=torch.bfloat16, device=device)
    target = torch.empty_like(source)
    size = 8192 if cuda else 768
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    copying, reading = _best(lambda: target.copy_(source), device), _best(lambda: source.view(torch.int32).max(), device)
    product = _best(lambda: a @ b, device)
    return {
        "copy_bytes_per_second": 4.0 * elements / copying,
        "read_bytes_per_second": 2.0 * elements / reading,
        "flops_per_second": {f"bf16 {size}x{size}x{size}": 2.0 * size**3 / product},
        "flops_are": "a large product by PyTorch, random values",
    }


def _best(call: Any, device: str, repeats: int = 5) -> float:
    def wait() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    times: List[float] = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return min(times)


def _version(module: str) -> Optional[str]:
    try:
        return str(__import__(module).__version__)
    except ImportError:
        return None


def _os_name() -> str:
    try:
        lines = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release") if "=" in line)
        return lines.get("PRETTY_NAME", platform.system()).strip('"')
    except OSError:
        return platform.system()


def _cpu_model() -> str:
    try:
        return next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _driver() -> Optional[str]:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None
