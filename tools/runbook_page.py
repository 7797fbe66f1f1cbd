"""Renders docs/operations/runbook.md and errors.md as the page `/runbook` of the status server.

The page is part of the package, so that the status page and alerts can link to its sections without
access to a documentation site. `tools/check_docs.py` checks that it is up to date.
"""

from __future__ import annotations

import re
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "src" / "bayou" / "ingest" / "monitoring" / "runbook.html"
SOURCES = ("runbook", "errors")

_COMMENT = re.compile(r"^<!-- .*? -->\n", re.MULTILINE | re.DOTALL)
"""Comments for tests: sources of claims, reasons of blocks that don't run."""

_STYLE = """
:root { --ground: #f6f7f5; --ink: #1b2422; --soft: #52605c; --line: #d5dcd9; --good: #17695d; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #101614; --ink: #e6ecea; --soft: #a3b1ad; --line: #34413d; --good: #62c9b6; }
}
body { margin: 0 auto; max-width: 860px; padding: 16px; background: var(--ground);
  color: var(--ink); font: 15px/1.6 system-ui, sans-serif; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin-top: 28px; }
h2:target { border-left: 4px solid var(--good); padding-left: 10px; }
a { color: var(--good); }
code { overflow-wrap: anywhere; }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; padding: 10px; }
table { border-collapse: collapse; } th, td { border-bottom: 1px solid var(--line);
  padding: 6px 12px 6px 0; text-align: left; vertical-align: top; }
"""


def page() -> str:
    """Return the page."""
    parts = [_html((ROOT / "docs" / "operations" / f"{n}.md").read_text("utf-8")) for n in SOURCES]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Bayou runbook</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        '<p><a href="./">Status</a></p>\n' + "\n".join(parts) + "</main>\n</body>\n</html>\n"
    )


def anchor(title: str) -> str:
    """Return a heading's anchor, as sites of Markdown files form it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _html(markdown: str) -> str:
    text = _COMMENT.sub("", markdown)
    html = str(MarkdownIt("commonmark").enable("table").render(text))
    html = re.sub(
        r"<h([12])>(.*?)</h\1>",
        lambda m: f'<h{m[1]} id="{anchor(re.sub("<.*?>", "", m[2]))}">{m[2]}</h{m[1]}>',
        html,
    )
    return re.sub(r'<a href="([^"]*)">(.*?)</a>', _link, html)


def _link(match: re.Match[str]) -> str:
    """Keep links within the page; of links to other pages keep the text."""
    target, _, section = match[1].partition("#")
    if target.removesuffix(".md") in ("", *SOURCES):
        return f'<a href="#{section or anchor("Errors by type")}">{match[2]}</a>'
    return match[2]
