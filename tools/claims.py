"""Claims of the documentation: figures, comparisons and guarantees, and what proves them.

A section names what proves its claims, in a comment that the site removes, or in its text:

    <!-- claim: tests/integration/plan/test_plan.py::test_name, benchmarks/scan_rows.py -->

The comment of a section also covers its subsections, except that of a page's title.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_GENERATED = "docs/reference/"
"""Pages whose texts are docstrings and help texts of the code."""

_EXEMPT = {
    "docs/design/facts.md": "facts about other software; the page says how they were found",
    "docs/design/glossary.md": "names of other projects",
    "docs/guide/names.md": "names of other projects",
}
"""Pages without claims about Bayou, and why."""

_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$")
_COMMENT = re.compile(r"<!-- claim: (.+?) -->", re.DOTALL)
_ANY_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NAMED = re.compile(r"`((?:tests|benchmarks)/[\w./-]+)`")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")

_CLAIMS = {
    "figure": re.compile(
        r"(?<![\w.])\d[\d,.]*(?: to \d[\d,.]*)? (?:ms|s|min)\b"
        r"|\brecords/s\b|\d[\d,.]* (?:records|rows|files) a second\b"
    ),
    "comparison": re.compile(
        r"\b\d+(?:\.\d+)?x\b|\btimes (?:as|the|faster|slower)\b|\b(?:faster|slower) than\b"
        r"|\b(?:less|more) memory than\b"
    ),
    "guarantee": re.compile(
        r"\bnever\b|\bexactly[ -]once\b|\bno (?:record|row|commit)s? (?:is|are)\b"
        r"|\bnothing is (?:lost|duplicated)\b|\bloses? (?:nothing|no|or)\b|\bneither lost nor\b",
        re.IGNORECASE,
    ),
}
_PEERS = ("delta-spark", "deltalake", "Delta Kernel", "kafka-delta-ingest", "Kafka Connect")


def problems(name: str, text: str) -> Iterator[str]:
    """Yield claims of a page without a source, and sources that don't exist."""
    is_checked = name == "README.md" or name.startswith("docs/")
    if not is_checked or name.startswith(_GENERATED) or name in _EXEMPT:
        return
    covered: list[tuple[int, bool]] = []
    for level, heading, section in _sections(text):
        sources = _sources(section)
        for source in sources:
            if not _exists(source):
                yield f"{name}: {heading}: the source {source} of a claim doesn't exist"
        while covered and covered[-1][0] >= level:
            covered.pop()
        inherited = any(has_source for outer, has_source in covered if outer > 1)
        covered.append((level, bool(sources)))
        claim = None if sources or inherited else _first_claim(section)
        if claim is not None:
            yield (
                f"{name}: {heading}: {claim} without a source. Name its test or benchmark: "
                "<!-- claim: tests/... -->"
            )


def _sections(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield level, heading and text of each section, without code blocks."""
    level, heading, lines = 1, "", list[str]()
    for line in _BLOCK.sub("", text).splitlines():
        if found := _HEADING.match(line):
            yield level, heading, "\n".join(lines)
            level, heading, lines = len(found[1]), found[2], []
        else:
            lines.append(line)
    yield level, heading, "\n".join(lines)


def _sources(section: str) -> list[str]:
    """Return the tests and benchmarks that a section names."""
    commented = [s.strip() for found in _COMMENT.findall(section) for s in found.split(",")]
    return [*commented, *_NAMED.findall(section)]


def _exists(source: str) -> bool:
    path, *names = source.split("::")
    if not path.startswith(("tests/", "benchmarks/")) or not (ROOT / path).exists():
        return False
    return all(re.search(rf"^ *(?:def|class) {n}\b", _text(path), re.MULTILINE) for n in names)


@functools.cache
def _text(path: str) -> str:
    return (ROOT / path).read_text()


def _first_claim(section: str) -> str | None:
    prose = _LINK.sub("", _CODE.sub("", _ANY_COMMENT.sub("", section)))
    for line in prose.splitlines():
        for kind, pattern in _CLAIMS.items():
            if found := pattern.search(line):
                return f"{kind} {found[0]!r}"
    for header in re.findall(r"^(\|.+\|)\n\|[-| ]+\|$", section, re.MULTILINE):
        if "Bayou" in header and any(peer in header for peer in _PEERS):
            return f"comparison with {next(peer for peer in _PEERS if peer in header)}"
    return None
