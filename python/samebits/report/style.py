"""How figures look: readable in grey (marks and hatches beside tones) and on a phone (large type, one column)."""

from typing import Any, List

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

TONES = ["#1b3a57", "#6f9bc0", "#c9b27c", "#8a8a8a", "#4d4d4d", "#d9d9d9", "#2f6f5e", "#b5654a"]
HATCHES = ["", "//", "..", "xx", "\\\\", "oo", "++", "--"]
MARKS = ["o", "s", "^", "D", "v", "P", "X", "*"]
WIDTH = 6.4  # inches; at 150 dots an inch a phone shows it whole


def new_figure(height: float) -> Any:
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False, "savefig.dpi": 150})
    return plt.subplots(figsize=(WIDTH, height), layout="constrained")


def finish(figure: Any, axes: Any, title: str, caption: List[str]) -> Any:
    """The title in words on top, and beneath it what was measured where and how."""
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", wrap=True)
    figure.supxlabel("\n".join(caption), fontsize=7, color="#444444", ha="left", x=0.01)
    return figure
