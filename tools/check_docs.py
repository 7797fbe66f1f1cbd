"""Checks the documentation: links, code blocks, claims, addresses, reference, docstrings.

usage: check_docs.py

Prints one line per problem, and exits with 1 if there are problems.
"""

from __future__ import annotations

import ast
import functools
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import addresses
import claims
import write_reference

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "index.md"

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_API = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_SOURCE_PATH = re.compile(r"`((?:src|tests|tools|benchmarks|examples)/[\w./-]+)`")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_SECTION = re.compile(r"^(?:Args|Attributes|Raises):\n((?: {4}.*\n?|\n)+)", re.MULTILINE)
_UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|TB[D])\b")


def main() -> int:
    """Print all problems; return the exit code."""
    problems = list(_problems())
    for problem in problems:
        print(problem)
    if not problems:
        print(f"docs: {len(_documents())} pages, no problems")
    return 1 if problems else 0


def _problems() -> Iterator[str]:
    for path in _documents():
        text = path.read_text()
        name = path.relative_to(ROOT)
        prose = _BLOCK.sub("", text)
        images = ("".join(found) for found in _IMAGE.findall(prose))
        for target in (*_LINK.findall(prose), *images):
            problem = _link_problem(path, target)
            if problem is not None:
                yield f"{name}: {problem}"
        for language, block in _BLOCK.findall(text):
            if language == "python":
                yield from _syntax_problems(name, block)
        for word in _UNFINISHED.findall(text):
            yield f"{name}: unfinished text: {word}"
        for address in addresses.found_in(text):
            yield f"{name}: address that isn't allowed: {address}"
        yield from claims.problems(str(name), text)
        for source in _SOURCE_PATH.findall(prose):
            if not (ROOT / source).exists():
                yield f"{name}: {source} doesn't exist"
    yield from _unreachable()
    yield from _stale_reference()
    yield from _docstring_problems()


def _documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def _link_problem(page: Path, target: str) -> str | None:
    if "://" in target or target.startswith("mailto:"):
        return None
    file, _, anchor = target.partition("#")
    path = (page.parent / file).resolve() if file else page
    if not path.exists():
        return f"link to {target}, which doesn't exist"
    if anchor and path.suffix == ".md" and anchor not in _anchors(path):
        return f"link to {target}, but {path.name} has no such heading"
    return None


@functools.cache
def _anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them, and of its API."""
    text = _BLOCK.sub("", path.read_text())
    headings = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    }
    return headings.union(*(_api_anchors(name) for name in _API.findall(text)))


def _api_anchors(name: str) -> Iterator[str]:
    """Yield the anchors that the site generates for an object: its dotted name and its members'."""
    value = pkgutil.resolve_name(name)
    yield name
    members = getattr(value, "__all__", None) or getattr(value, "__dict__", {})
    for member in members:
        inner = getattr(value, member, None)
        if member.startswith("_") or (inspect.ismodule(value) and inspect.ismodule(inner)):
            continue
        yield f"{name}.{member}"
        if inspect.ismodule(value) and inspect.isclass(inner):
            yield from (f"{name}.{member}.{m}" for m in vars(inner) if not m.startswith("_"))


def _syntax_problems(name: Path, block: str) -> Iterator[str]:
    try:
        compile(block, str(name), "exec")
    except SyntaxError as error:
        line = block.splitlines()[(error.lineno or 1) - 1 :][:1]
        yield f"{name}: Python block doesn't compile: {error.msg}: {' '.join(line)}"


def _unreachable() -> Iterator[str]:
    seen: set[Path] = set()
    pending = [INDEX]
    while pending:
        page = pending.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        targets = (target.partition("#")[0] for target in _LINK.findall(page.read_text()))
        pending += [(page.parent / t).resolve() for t in targets if t and "://" not in t]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page not in seen:
            yield f"{page.relative_to(ROOT)}: not reachable from docs/index.md"


def _docstring_problems() -> Iterator[str]:
    """Yield lines of sections that the site can't read: neither `name: text` nor indented."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, _DOCUMENTED):
                continue
            for section in _SECTION.findall(ast.get_docstring(node) or ""):
                for line in section.splitlines():
                    if not re.match(r" {5,}|$| {4}[^:]+:(?: |$)", line):
                        yield f"{path.relative_to(ROOT)}: {line.strip()!r}: indent this line"


def _stale_reference() -> Iterator[str]:
    for path, text in write_reference.pages().items():
        if not path.exists() or path.read_text() != text.rstrip() + "\n":
            yield f"{path.relative_to(ROOT)}: differs from the docstrings. Run make docs"


if __name__ == "__main__":
    sys.exit(main())
