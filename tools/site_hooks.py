"""Hooks of mkdocs: comments for tests, links to files and terms, tables, Mermaid's script.

The site has no address of a repository. A link to a file or folder of `examples` and `deploy`
downloads it from the site, a folder as a zip archive. A link to another source file becomes its
text. On a forge the same links open the files.

The first mention of a term on a page for users is a link to its row on the page of terms.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CONSTRAINTS = ROOT / "constraints.txt"
DOWNLOADS = (ROOT / "deploy", ROOT / "examples")
TERMS = DOCS / "get-started" / "terms.md"
MERMAID = ROOT / ".cache" / "site" / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"

_PICTURE = "```mermaid\n"
# Pictures keep their size and scroll on narrow screens; arrows are visible in both color schemes.
_SETTINGS = (
    '%%{init: {"flowchart": {"useMaxWidth": false, "nodeSpacing": 25}, '
    '"sequence": {"useMaxWidth": false, "actorMargin": 15, "width": 120}, '
    '"themeVariables": {"signalColor": "#5f8f88"}}}%%\n'
)
_COMMENT = re.compile(r"^ *<!-- (?:(?:not run|claim): .*?|output) -->\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s]+)\)")
_EXPLAINED = ("get-started/", "guide/", "operations/")
"""Folders of the pages for users."""

_TERM = re.compile(r"^\| (?!term |[A-Z]{2})([A-Za-z][\w\- ]{7,}?)(?=,| \|)", re.MULTILINE)
_NOT_PROSE = re.compile(
    r"^ *```.*?^ *```|<!--.*?-->|^#.*?$|`[^`]*`|\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
_CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
_CELL_TEXT = re.compile(r"(?<=>)[^<]+(?=<)")
_LONG_NAME = re.compile(r"\w{20,}")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAME_PARTS = re.compile(r"(?<=\w)([._/:=]|,(?! ))(?=[A-Za-z])|(?<=\w)(?=\()")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Remove comments for tests and links to files outside of `docs`; set up the pictures."""
    folder = (DOCS / page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link.group(2).partition("#")[0]))
        if target == CONSTRAINTS or any(map(target.is_relative_to, DOWNLOADS)):
            archive = ".zip" if target.is_dir() else ""
            served = DOCS / target.relative_to(ROOT)
            return f"[{link.group(1)}]({os.path.relpath(served, folder)}{archive})"
        return link.group(0) if target.is_relative_to(DOCS) else link.group(1)

    text = _COMMENT.sub("", markdown).replace(_PICTURE, _PICTURE + _SETTINGS)
    text = _LINK.sub(replaced, text)
    if folder / page.file.name == TERMS.with_suffix(""):
        return _TERM.sub(lambda row: f'| <a id="{_anchor(row[1])}"></a>{row[1]}', text)
    if page.file.src_uri.startswith(_EXPLAINED):
        text = _with_terms(text, os.path.relpath(TERMS, folder))
    return text


def _anchor(term: str) -> str:
    return term.lower().replace(" ", "-")


def _with_terms(text: str, page: str) -> str:
    """Return Markdown in which the first mention of each term is a link."""
    for term in sorted(_TERM.findall(TERMS.read_text()), key=len, reverse=True):
        found = re.compile(rf"\b{re.escape(term)}(?:s|es)?\b", re.IGNORECASE)
        start = 0
        for other in (*_NOT_PROSE.finditer(text), None):
            end = other.start() if other else len(text)
            if mention := found.search(text, start, end):
                link = f"[{mention[0]}]({page}#{_anchor(term)})"
                text = text[: mention.start()] + link + text[mention.end() :]
                break
            start = other.end() if other else end
    return text


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables break after their parts, so that all columns are visible."""

    def text(found: re.Match[str]) -> str:
        parts = _NAME_PARTS.sub(r"\g<0><wbr>", found[0])
        return _LONG_NAME.sub(lambda name: _WORDS.sub("<wbr>", name[0]), parts)

    return _CELL.sub(lambda cell: _CELL_TEXT.sub(text, cell[0]), html)


def on_files(files: Files, config: Any) -> Files:
    """Serve the constraints, downloads, and Mermaid: the theme would load it from another host."""
    files.append(File.generated(config, CONSTRAINTS.name, abs_src_path=str(CONSTRAINTS)))
    for path in _downloads():
        name = path.relative_to(ROOT).as_posix()
        if path.is_dir():
            files.append(File.generated(config, f"{name}.zip", content=_archive(path)))
        else:
            files.append(File.generated(config, name, abs_src_path=str(path)))
    script = File.generated(config, "site/mermaid.min.js", abs_src_path=str(MERMAID))
    files.append(script)
    config["extra_javascript"].append("site/mermaid.min.js")
    return files


def _downloads() -> Iterator[Path]:
    for folder in DOWNLOADS:
        yield folder
        yield from (p for p in sorted(folder.rglob("*")) if "__pycache__" not in p.parts)


def _archive(folder: Path) -> bytes:
    """Return a zip archive of a folder, which depends on the contents of its files only."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(folder.parent).as_posix()
                files.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive.getvalue()
