"""How figures look: readable in grey (marks and hatches beside tones) and on a phone (large type, one column)."""

from typing import Any, List

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

TONES = ["#1b3a57", "#6f9bc0", "#c9b27c", "#8a8a8a", "#4d4d4d", "#d9d9d9", "#2f6f5e", "#b5654a"]
HATCHES = ["", "//", "..", "xx", "\\\\", "oo", "++", "--"]
MARKS = ["o", "s", "^", "D", "v", "P", "X", "*"]
WIDTH = 6.4  # inches; at 150 dots an inch a phone shows it whole


def new_figure(height: float, panels: int = 1) -> Any:
    """A figure and its axes; a list of them where there are several panels, one above the other."""
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False, "savefig.dpi": 150})
    figure, axes = plt.subplots(panels, 1, figsize=(WIDTH, height), layout="constrained", squeeze=False)
    return figure, (axes[0, 0] if panels == 1 else list(axes[:, 0]))


def finish(figure: Any, title: str, caption: List[str]) -> Any:
    """The title in words on top, and beneath what was measured where and how."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.supxlabel("\n".join(caption), fontsize=7, color="#444444", ha="left", x=0.01)
    return figure
