"""Draws benchmark results as SVG files for docs/benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure

__all__ = ["bars", "beside_goals", "shares"]

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


def beside_goals(
    file: Path, title: str, measured: Mapping[str, tuple[float, float]], unit: str
) -> None:
    """Draw a bar for each figure, and a line for its goal, from top to bottom."""
    figure = Figure(figsize=(7, 0.9 + 0.32 * len(measured)), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=unit)
    places = np.arange(len(measured))
    now, goals = (np.array(values) for values in zip(*measured.values(), strict=True))
    drawn = axes.barh(places, now, 0.6, label="now", color=_COLOURS[1])
    axes.vlines(goals, places - 0.42, places + 0.42, label="goal", color=_COLOURS[0], linewidth=2)
    fmt = "{:,.2f}" if max(now) < 100 else "{:,.0f}"
    labels = axes.bar_label(drawn, fmt=fmt, fontsize=8, padding=3)
    for label in labels:  # readable where a goal's line is behind it
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.set_yticks(places, [name.replace("`", "") for name in measured])
    axes.invert_yaxis()
    axes.margins(x=0.1)
    _finish(figure, file, axes.xaxis)


def shares(file: Path, title: str, measured: Mapping[str, np.ndarray], unit: str) -> None:
    """Draw for each program the cumulative distribution of its values, in percent."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=unit, ylabel="% of records")
    steps = np.arange(101)
    for number, (program, values) in enumerate(measured.items()):
        axes.plot(np.percentile(values, steps), steps, label=program, color=_COLOURS[number])
    axes.set_xlim(left=0)
    _finish(figure, file)


def _finish(figure: Figure, file: Path, values: Axis | None = None) -> None:
    """Store a figure; `values` is the axis of the measured values, the y-axis by default."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        (values or axes.yaxis).set_major_formatter(lambda value, _: f"{value:,g}")
        axes.legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="svg", metadata=dict.fromkeys(_METADATA))
