"""Draws benchmark results as SVG files for docs/benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

__all__ = ["bars", "shares"]

_COLOURS = ("#b5541c", "#0a7a5a", "#31639c")
_MAX_LABELED = 8  # groups; in a chart with more groups, bars have no labels
_METADATA = ("Creator", "Date", "Format", "Type")  # left out: it changes, and names addresses
# The same picture from the same figures, and text that a reader can select.
mpl.rcParams.update({"svg.hashsalt": "bayou", "svg.fonttype": "none", "font.size": 9})


def bars(
    file: Path,
    title: str,
    groups: Sequence[str],
    measured: Mapping[str, Sequence[float]],
    unit: str,
) -> None:
    """Draw a bar chart: a group of bars for each name in `groups`, with a bar for each program."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.add_subplot(title=title, ylabel=unit)
    width = 0.8 / len(measured)
    for number, (program, heights) in enumerate(measured.items()):
        places = np.arange(len(groups)) - 0.4 + width * (number + 0.5)
        drawn = axes.bar(places, heights, width * 0.95, label=program, color=_COLOURS[number])
        if len(groups) <= _MAX_LABELED:
            axes.bar_label(drawn, fmt="{:,.3g}" if max(heights) < 100 else "{:,.0f}", fontsize=8)
    axes.set_xticks(np.arange(len(groups)), groups)
    _finish(figure, file)


def shares(file: Path, title: str, measured: Mapping[str, np.ndarray], unit: str) -> None:
    """Draw for each program the cumulative distribution of its values, in percent."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=unit, ylabel="% of records")
    steps = np.arange(101)
    for number, (program, values) in enumerate(measured.items()):
        axes.plot(np.percentile(values, steps), steps, label=program, color=_COLOURS[number])
    axes.set_xlim(left=0)
    _finish(figure, file)


def _finish(figure: Figure, file: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata=dict.fromkeys(_METADATA))
