"""Hugging Face's Qwen3MLP on this machine's GPU, unmodified, and what a report says of both."""
import shlex
import subprocess
import sys
import time

import torch
import transformers
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP


def qwen3_mlp(hidden, intermediate):
    """One block in bf16, as the library builds and initialises it."""
    config = Qwen3Config(hidden_size=hidden, intermediate_size=intermediate, hidden_act="silu")
    with torch.device("cuda"):
        return Qwen3MLP(config).to(torch.bfloat16)


def driver_version():
    try:
        answer = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                capture_output=True, text=True, check=True).stdout
        return answer.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def report_head(schema):
    return {"schema": schema,
            "device": torch.cuda.get_device_name(),
            "driver": driver_version(),
            "cuda": torch.version.cuda,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": shlex.join([sys.executable.rsplit("/", 1)[-1], *sys.argv])}
