"""The code blocks of the README and of the pages in docs.

A comment `<!-- not run: REASON -->` on the line before a block says why no test runs it. A comment
`<!-- output -->` before a block of language `text` says that it is the output of the block above,
which a test compares. The site removes these comments.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["RUN", "SHOWN", "Block", "blocks_of", "documented_pages"]

ROOT = Path(__file__).parents[2]

RUN = frozenset({"bash", "console", "json", "python", "sh", "sql", "yaml"})
"""Languages whose blocks run."""

SHOWN = frozenset({"", "mermaid", "text"})
"""Languages of pictures, output and files of other programs, which don't run."""

_FENCE = re.compile(r"^( *)```(\w*)$")
_OUTPUT = "<!-- output -->"
_REASON = re.compile(r"^ *<!-- not run: (.+) -->$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A code block.

    Attributes:
        page: path of the page from the repository's root.
        line: number of the first line of code.
        reason: why the block doesn't run; None if it runs.
        output: what the page shows as the block's output.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str | None = None
    output: str | None = None

    @property
    def runs(self) -> bool:
        """Whether a test runs the block."""
        return self.language in RUN and self.reason is None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def documented_pages() -> list[str]:
    """Return the README and the pages of docs, as paths from the repository's root."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page.relative_to(ROOT).as_posix() for page in pages]


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    blocks: list[Block] = []
    lines = (ROOT / page).read_text().splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        number += 1
        if fence is None:
            continue
        end = next(i for i in range(number, len(lines)) if lines[i].strip() == "```")
        text = textwrap.dedent("\n".join(lines[number:end])) + "\n"
        above = lines[number - 2].strip() if number > 1 else ""
        if above == _OUTPUT:
            blocks[-1] = replace(blocks[-1], output=text)
        else:
            reason = _REASON.match(above)
            blocks.append(
                Block(
                    page=page,
                    line=number + 1,
                    language=fence[2],
                    text=text,
                    reason=reason[1] if reason else None,
                )
            )
        number = end + 1
    return blocks
