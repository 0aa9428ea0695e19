#!/usr/bin/env python3
"""A figure of what bench/tp_ratio.py wrote: the time of each layout over PyTorch's on the same layout, by tokens.

usage: bench/tp_figure.py REPORT.json FIGURE.png     (matplotlib)

A panel a layout and direction, a bar a contract; the better of serial and overlapped. Readable in grey. The caption says machine, versions and command.
"""
import json
import sys
import textwrap

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

TONES = ("#555555", "#cccccc", "#888888", "#eeeeee")
HATCHES = ("", "//", "..", "xx")


def ratio_of(row):
    ratios = [row[f"{setting}_of_pytorch"] for setting in ("serial", "overlapped")]
    return min((ratio for ratio in ratios if ratio is not None), default=None)


def draw(panel, rows, contracts):
    tokens = sorted({row["tokens"] for row in rows})
    width = 0.84 / len(contracts)
    for index, contract in enumerate(contracts):
        mine = [row for row in rows if row["contract"] == contract and ratio_of(row) is not None]
        at = [tokens.index(row["tokens"]) + (index - (len(contracts) - 1) / 2) * width for row in mine]
        bars = panel.bar(at, [ratio_of(row) for row in mine], width, label=contract, color=TONES[index % 4], hatch=HATCHES[index % 4],
                         edgecolor="white")
        panel.bar_label(bars, fmt="%.2f", fontsize=6.5, padding=1)
    panel.axhline(1, color="black", linewidth=1, linestyle="--", zorder=0.5)
    panel.set_xticks(range(len(tokens)), [str(count) for count in tokens])
    panel.margins(y=0.12)


def caption_of(report):
    words = (f"{report['gpus']} of {report['device']}, driver {report['driver']}, CUDA {report['cuda']}, torch {report['torch']}, NCCL {report['nccl']}, "
             f"NVLink multicast {'off' if report['nvls'] == '0' else 'on'}; samebits {report['samebits']}; {report['hidden']}x{report['intermediate']}; "
             f"CUDA graphs, slowest rank, medians of {report['replays']}; {report['time']}; {report['command']}")
    return "\n".join(textwrap.wrap(words, 150))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    rows = report["rows"]
    layouts, directions, contracts = (list(dict.fromkeys(row[key] for row in rows)) for key in ("layout", "direction", "contract"))
    figure, panels = pyplot.subplots(len(layouts), len(directions), figsize=(5.4 * len(directions), 2.3 * len(layouts) + 1.2), squeeze=False)
    for line, layout in zip(panels, layouts):
        for panel, direction in zip(line, directions):
            draw(panel, [row for row in rows if (row["layout"], row["direction"]) == (layout, direction)], contracts)
            panel.set_title(f"{layout}, {direction}", fontsize=9, loc="left")
        line[0].set_ylabel("time / PyTorch's")
    for panel in panels[-1]:
        panel.set_xlabel("tokens of a call")
    panels[0][-1].legend(fontsize=8, ncols=2, frameon=False, loc="lower right", bbox_to_anchor=(1, 1.02))
    figure.suptitle("Time over PyTorch's tensor parallelism on the same layout (below 1: faster)", fontsize=10)
    figure.text(0.01, 0.005, caption_of(report), fontsize=6.5, va="bottom")
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
