"""Experiment 2: how long the whole block takes, against Hugging Face's on one device, and each layout against one rank."""

import statistics
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch

from ..torch import Qwen3MLP, clear_cache
from .baseline import baseline_of
from .layouts import Layout, layout_of, times_on
from .operands import operands_of

CALLS_A_GRAPH = 5
ROUNDS = 3


def spread(samples: List[float]) -> Dict[str, float]:
    ordered = sorted(samples)
    at95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {"median": statistics.median(ordered), "p95": at95, "min": ordered[0], "max": ordered[-1]}


def latency(
    contract: str, shape: Tuple[int, int], tokens: List[int], directions: List[str], layouts: List[str], device: str, repeats: int
) -> Iterator[Dict[str, Any]]:
    """Rows of a report, one by one. Times are microseconds of a call. Ours and the baseline's turns alternate."""
    for count in tokens:
        yield from _against_baseline(contract, shape, count, directions, device, repeats)
        if device == "cpu":
            yield from _layouts(contract, shape, count, directions, layouts, repeats)


def _against_baseline(
    contract: str, shape: Tuple[int, int], tokens: int, directions: List[str], device: str, repeats: int
) -> Iterator[Dict[str, Any]]:
    hidden, intermediate = shape
    operands = operands_of(tokens, hidden, intermediate, device)
    theirs, name = baseline_of(hidden, intermediate, operands.weights, torch.bfloat16)
    ours = Qwen3MLP(theirs_config(hidden, intermediate), contract=contract).to(device, torch.bfloat16)
    ours.load_state_dict(theirs.state_dict())
    for direction in directions:
        for mode in ("eager", "graph") if device.startswith("cuda") else ("eager",):
            mine = timer(call_of(ours, operands.x, operands.dy, direction), mode, device, repeats)
            other = timer(call_of(theirs, operands.x, operands.dy, direction), mode, device, repeats)
            samples: Tuple[List[float], List[float]] = ([], [])
            for _ in range(ROUNDS):
                samples[1].extend(other())
                samples[0].extend(mine())
            row = row_of(contract, shape, tokens, "tp1", direction, mode, spread(samples[0]))
            yield {
                **row,
                "baseline": name,
                "baseline_us": spread(samples[1]),
                "ratio": statistics.median(samples[0]) / statistics.median(samples[1]),
            }
            del mine, other
            clear_cache(captured=True)  # of the graphs that are gone


def _layouts(
    contract: str, shape: Tuple[int, int], tokens: int, directions: List[str], layouts: List[str], repeats: int
) -> Iterator[Dict[str, Any]]:
    operands = operands_of(tokens, *shape, "cpu")
    for direction in directions:
        alone = times_on(contract, Layout(1, 1, False), operands, direction == "both", repeats)
        for name in layouts:
            try:
                samples = times_on(contract, layout_of(name), operands, direction == "both", repeats)
            except ValueError:  # refused: said in the first experiment
                continue
            row = row_of(contract, shape, tokens, name, direction, "eager", spread(samples))
            ratio = statistics.median(samples) / statistics.median(alone)
            yield {
                **row,
                "baseline": "samebits, one rank (ranks are threads that share the machine)",
                "baseline_us": spread(alone),
                "ratio": ratio,
            }


def theirs_config(hidden: int, intermediate: int) -> Any:
    import types

    return types.SimpleNamespace(hidden_size=hidden, intermediate_size=intermediate, hidden_act="silu")


def row_of(
    contract: str, shape: Tuple[int, int], tokens: int, layout: str, direction: str, mode: str, ours: Dict[str, float]
) -> Dict[str, Any]:
    hidden, intermediate = shape
    times = 3 if direction == "both" else 1
    flops = 6.0 * tokens * hidden * intermediate * times
    weight_bytes = 6.0 * hidden * intermediate * times
    seconds = ours["median"] * 1e-6
    return {
        "direction": direction, "tokens": tokens, "layout": layout, "contract": contract, "mode": mode, "ours_us": ours,
        "flops_per_second": flops / seconds, "weight_bytes_per_second": weight_bytes / seconds,
    }  # fmt: skip


def call_of(module: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor, direction: str) -> Callable[[], Any]:
    """forward, or forward and backward: dx and the three weight gradients."""
    if direction == "forward":

        def forward() -> Any:
            with torch.no_grad():
                return module(x)

        return forward
    leaf = x.detach().clone().requires_grad_()
    wanted = [leaf, *module.parameters()]
    return lambda: torch.autograd.grad(module(leaf), wanted, dy)


def timer(call: Callable[[], Any], mode: str, device: str, repeats: int) -> Callable[[], List[float]]:
    """A function that makes `repeats` measurements."""
    if not device.startswith("cuda"):
        call()
        return lambda: [_cpu_us(call) for _ in range(repeats)]
    if mode == "graph":
        graph = graph_of(call)
        return lambda: [us / CALLS_A_GRAPH for us in _cuda_us(graph.replay, repeats)]
    for _ in range(3):
        call()
    return lambda: _cuda_us(call, repeats)


def graph_of(call: Callable[[], Any]) -> Any:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS_A_GRAPH):
            call()
    return graph


def _cpu_us(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e6


def _cuda_us(call: Callable[[], Any], repeats: int) -> List[float]:
    times = []
    for _ in range(3):
        call()
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return times
