"""What every figure says beneath itself: machine, versions, contract and command."""

import textwrap
from typing import Any, Dict, List


def machine_of(report: Dict[str, Any]) -> str:
    environment = report.get("environment", {})
    device = environment.get("device")
    if device:
        return f"{device['name']}, driver {device.get('driver')}, CUDA {device.get('runtime')}"
    return f"{environment.get('cpu', 'unknown CPU')}, {environment.get('isa')}, {environment.get('threads')} threads"


def versions_of(report: Dict[str, Any]) -> str:
    environment = report.get("environment", {})
    named = [("samebits", report.get("version")), ("torch", environment.get("torch")), ("transformers", environment.get("transformers"))]
    return ", ".join(f"{name} {version}" for name, version in named if version)


def caption_of(report: Dict[str, Any]) -> List[str]:
    contract, shape, environment = report["contract"], report["shape"], report.get("environment", {})
    lines = [
        f"{machine_of(report)}; {versions_of(report)}; {environment.get('time', '')}",
        f"contract {contract['name']} ({contract['fingerprint']}); H {shape['hidden']}, I {shape['intermediate']} ({shape['source']})",
        environment.get("command_line", ""),
    ]
    return [part for line in lines for part in textwrap.wrap(line, 118)]
