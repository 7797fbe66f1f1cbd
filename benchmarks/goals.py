"""Compares what `make bench` measured with the goals, and writes the tables of its page.

usage: goals.py [--figures FILE.json ...] [--page FILE.md]

`run.py` stores its figures in `.cache/bench/figures.json`. With the figures of several runs, their
medians are compared. With --page, this program replaces each table of goals in the page, which
stands between `<!-- goals: SECTION -->` and `<!-- end of goals -->`, and draws the table's picture
into the folder `benchmarks` beside the page.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import measure
import plots
from million_files import CACHE
from rich.console import Console
from rich.table import Table as Grid

__all__ = ["FIGURES", "SECTIONS", "Goal", "grid", "page"]

FIGURES = CACHE / "figures.json"


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a measured figure.

    Attributes:
        what: what is measured, for the page.
        figure: the figure's name, see `measure.record`.
        goal: the maximum, or with `at_least` the minimum.
        unit: `x` for a ratio to the peer.
    """

    what: str
    figure: str
    goal: float
    unit: str = "x"
    at_least: bool = False

    def reached(self, now: float) -> bool:
        """Whether a measured figure reaches the goal."""
        return now >= self.goal if self.at_least else now <= self.goal


def _memory(what: str, case: str, goal: float) -> Goal:
    return Goal(f"{what}, memory", f"{case} / memory", goal)


_APPENDED = "{} records, {} a batch / bayou / {}"
_UPSERTED = "{} records, upserted, {} a batch / bayou / {}"
_WRITE = "{} / bayou / time"
_RANGE = "bayou, range filter, one-row-group / deltalake, load only"
_FILES = "bayou, one Arrow table, one-row-group / deltalake, load and list"
_APPEND = "Append 8,000,000 rows, 8 columns"
_ROWS = "16,000,000 rows in 16 files, all 8 columns"

SECTIONS: Mapping[str, tuple[str, Sequence[Goal]]] = {
    "Queries with Spark": (
        "delta-spark",
        (
            Goal("TPC-H, 22 queries together", "TPC-H, scale factor 1 / all queries / time", 0.75),
            Goal(
                "TPC-H, the slowest beside the peer",
                "TPC-H, scale factor 1 / slowest query / time",
                1.05,
            ),
            Goal(
                "99 questions on TPC-DS's tables",
                "Questions on TPC-DS, scale factor 0.01 / all queries / time",
                0.15,
            ),
            Goal("8,000,000 rows, all columns", "8M rows, 8 columns / enable / time", 0.7),
            Goal(
                "8,000,000 rows, a filter for one",
                "8M rows, filter for one row / enable / time",
                0.5,
            ),
            Goal("10,000 small files", "10,000 small files, 2 of 9 columns / enable / time", 0.5),
            Goal(
                "1,000,000 files, no filter, warm",
                "plan of 1,000,000 files, no filter, warm / enable / time",
                0.3,
            ),
            Goal(
                "1,000,000 files, first query of a session",
                "plan of 1,000,000 files, a filter that leaves none, cold / enable / time",
                0.07,
            ),
            Goal(
                "1,000,000 files, a stream's first batch, cold",
                "1,000,000 files, stream, cold / enable / time",
                0.3,
            ),
        ),
    ),
    "Changes with Spark": (
        "delta-spark",
        (
            Goal("append into one folder, after enable", "one folder / enable / time", 0.7),
            Goal("append into one folder, data source", "one folder / source / time", 1.0),
            Goal("append into 16 partitions", "16 partitions / enable / time", 0.5),
            Goal("MERGE of 50%", "MERGE of 50%, updates / enable / time", 0.15),
            Goal("Z-order", "Z-order 8,000,000 rows / enable / time", 0.3),
            Goal("UPDATE of 1%", "UPDATE of 1% / enable / time", 0.1),
        ),
    ),
    "Without Spark": (
        "deltalake",
        (
            Goal("16,000,000 rows", f"{_ROWS} / deltalake / time", 1.0),
            Goal("16,000,000 rows (polars)", f"{_ROWS} / Polars scan_delta / time", 1.0),
            Goal("1,000,000 files, range filter", f"{_RANGE} / time", 0.3),
            _memory("1,000,000 files, range filter", _RANGE, 0.3),
            Goal("1,000,000 files, files()", f"{_FILES} / time", 0.3),
            _memory("1,000,000 files, files()", _FILES, 0.5),
            Goal("append of 8,000,000 rows", f"{_APPEND} / bayou / time", 0.5),
            Goal("delete of one row", _WRITE.format("Delete one of 8,000,000 rows"), 0.5),
            Goal("VACUUM of 100,000 files", _WRITE.format("Vacuum 100,000 files"), 0.7),
            Goal(
                "change data feed",
                _WRITE.format("Changes of 4,000,000 rows in 20 appends, 5 updates of 1%"),
                0.8,
            ),
        ),
    ),
    "Kafka to a table": (
        "Spark's connector and delta-spark",
        (
            Goal("10,000 a batch", _APPENDED.format("50,000", "10,000", "speed"), 8, at_least=True),
            Goal(
                "100,000 a batch", _APPENDED.format("300,000", "100,000", "speed"), 6, at_least=True
            ),
            Goal(
                "1,000,000 a batch",
                _APPENDED.format("1,000,000", "1,000,000", "speed"),
                3,
                at_least=True,
            ),
            _memory("all batch sizes", "records / bayou", 1.0),
            Goal(
                "upserts, 100,000 a batch",
                _UPSERTED.format("200,000", "100,000", "speed"),
                25,
                at_least=True,
            ),
            Goal(
                "upserts, 1,000,000 a batch",
                _UPSERTED.format("200,000", "1,000,000", "speed"),
                8,
                at_least=True,
            ),
            Goal(
                "upserts of 1,000,000 new records",
                _UPSERTED.format("1,000,000", "1,000,000", "speed"),
                3,
                at_least=True,
            ),
        ),
    ),
    "Seconds": (
        "",
        (
            Goal("age of a record, p50", "age of records, p50 / bayou / seconds", 0.7, "s"),
            Goal("age of a record, p99", "age of records, p99 / bayou / seconds", 1.5, "s"),
            Goal(
                "start of `bayou run` to its first commit",
                "start of the process to first commit, s / bayou / value",
                5,
                "s",
            ),
        ),
    ),
    "Milliseconds": (
        "",
        (
            Goal("`bayou read`", "new process / bayou read / ms", 300, "ms"),
            Goal("`bayou history`", "new process / bayou history / ms", 300, "ms"),
            Goal("`bayou status`", "new process / bayou status / ms", 300, "ms"),
        ),
    ),
    "Memory": (
        "",
        (
            Goal("pipeline of 1 topic", "1 topics / bayou / peak GB", 0.7, "GB"),
            Goal("pipeline of 100 topics", "100 topics / bayou / peak GB", 0.9, "GB"),
        ),
    ),
}


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure over the runs that have it."""
    names = dict.fromkeys(name for figures in runs for name in figures)
    return {name: median(run[name] for run in runs if name in run) for name in names}


def grid(figures: Mapping[str, float]) -> Grid:
    """Return a table of the goals."""
    found = Grid(title="Goals", title_justify="left")
    for heading in ("", "now", "goal", ""):
        found.add_column(heading, justify="right" if heading else "left")
    for peer, goals in SECTIONS.values():
        for goal in goals:
            name = f"{goal.what} / {peer}" if peer else goal.what
            found.add_row(name, *_cells(goal, figures))
    return found


def page(figures: Mapping[str, float], text: str) -> str:
    """Return the page with the tables of `figures`.

    Raises:
        ValueError: the page lacks a section, or has an unknown one.
    """
    begin, end = "<!-- goals: {} -->", "<!-- end of goals -->"
    sections = re.findall(begin.format("(.*)"), text)
    if sections != list(SECTIONS):
        raise ValueError(f"the page has the sections {sections} instead of {list(SECTIONS)}")
    for section in SECTIONS:
        before, _, rest = text.partition(begin.format(section))
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"section {section!r} of the page has no {end}")
        table = "\n".join(_table(section, figures))
        text = f"{before}{begin.format(section)}\n{table}\n{end}{after}"
    return text


def _table(section: str, figures: Mapping[str, float]) -> list[str]:
    peer, goals = SECTIONS[section]
    unit = f"Ratio to {peer}" if peer else section
    lines = [f"![{unit}, and the goals](benchmarks/{picture(section)})", ""]
    lines += ["| what | now | goal | |", "|---|---|---|---|"]
    return lines + [f"| {' | '.join((goal.what, *_cells(goal, figures)))} |" for goal in goals]


def picture(section: str) -> str:
    """Return the file name of a section's picture."""
    return f"goals-{section.lower().replace(' ', '-')}.svg"


def draw(figures: Mapping[str, float], folder: Path) -> None:
    """Draw a picture for each section."""
    for section, (peer, goals) in SECTIONS.items():
        measured = [goal for goal in goals if goal.figure in figures]
        if measured:
            unit = f"ratio to {peer}" if peer else section.lower()
            plots.beside_goals(
                folder / picture(section),
                section,
                {goal.what: (figures[goal.figure], goal.goal) for goal in measured},
                unit,
            )


def _cells(goal: Goal, figures: Mapping[str, float]) -> tuple[str, str, str]:
    """Return the measured figure, the goal, and whether it is reached."""
    now = figures.get(goal.figure)
    if now is None:
        return "", _text(goal.goal, goal.unit), "not measured"
    reached = "reached" if goal.reached(now) else "missed"
    shown, limit = _text(now, goal.unit), _text(goal.goal, goal.unit)
    if shown == limit and now != goal.goal:
        shown = _text(now, goal.unit, digits=3)
    return shown, limit, reached


def _text(figure: float, unit: str, digits: int = 2) -> str:
    if unit == "ms":
        return f"{figure:.0f} ms"
    return f"{figure:.{digits}f}{unit if unit == 'x' else f' {unit}'}"


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments, print the table, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--figures", type=Path, nargs="+", default=[FIGURES])
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    figures = medians([json.loads(file.read_text(encoding="utf-8")) for file in options.figures])
    Console(width=measure.WIDTH).print(grid(figures))
    if options.page is not None:
        text = page(figures, options.page.read_text(encoding="utf-8"))
        options.page.write_text(text, encoding="utf-8")
        draw(figures, options.page.parent / "benchmarks")


if __name__ == "__main__":
    main(sys.argv[1:])
