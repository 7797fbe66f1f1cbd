"""Names in a statement that may be tables, found by a glance at the words before them.

Most statements name no Delta table. Taking each apart only to see that would take longer than
looking up the few names that stand where tables do: a statement of 100 kB is mostly values, which
nobody has to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["table_candidates"]

_BEFORE = ("from", "join", "into", "overwrite", "table", "using")
_BEFORE_CHANGED = "update"

_QUERY = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})
_BEHIND_NAMES = frozenset(
    {
        "WHERE",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "WINDOW",
        "SELECT",
        "VALUES",
        "SET",
        "WHEN",
        ")",
        ";",
        *(word.upper() for word in _BEFORE),
    }
)
"""What ends a list of tables. Words before further tables are found for themselves."""

_BLANK = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
_WORD = re.compile(
    r"\w+|`(?:[^`]|``)*`|[rR]?'(?:[^'\\]|\\.)*'|[rR]?\"(?:[^\"\\]|\\.)*\"|.", re.DOTALL
)


def table_candidates(text: str) -> set[tuple[str, ...]]:
    """Every name that stands where a table may; others too, never fewer than there are.

    `table_changes` and its like are among them. Words inside of texts in quotes count, too.
    """
    found: set[tuple[str, ...]] = set()
    for end, before_columns in _places(text):
        glance = _Glance(text, end)
        if not glance.says(("SET",)):  # of UPDATE SET in a MERGE
            found.update(_listed(glance, before_columns=before_columns))
    return found


def _places(text: str) -> Iterator[tuple[int, bool]]:
    """Where the words end that stand before tables, and whether columns may follow instead."""
    # One letter becomes two: the others stay where they are.
    lowered = text.replace("\u0130", "i").lower()
    for word in (*_BEFORE, _BEFORE_CHANGED):
        at = lowered.find(word)
        while at >= 0:
            end = at + len(word)
            if not (_is_in_word(lowered[at - 1 : at]) or _is_in_word(lowered[end : end + 1])):
                yield end, word == "using"
            at = lowered.find(word, end)


def _is_in_word(character: str) -> bool:
    return character.isalnum() or (character != "" and character in "_`")


class _Glance:
    """A place in a text, and the word there; blanks and comments are passed over."""

    __slots__ = ("_text", "end", "word")

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.end = at
        self.word = ""
        self.next()

    def next(self) -> None:
        """Go to the next word; at the end there is an empty one."""
        blank = _BLANK.match(self._text, self.end)
        found = _WORD.match(self._text, self.end if blank is None else blank.end())
        self.word = "" if found is None else found[0]
        self.end = len(self._text) if found is None else found.end()

    def fork(self) -> _Glance:
        """Another one, behind this word."""
        return _Glance(self._text, self.end)

    @property
    def name(self) -> str | None:
        """The word as a name, without its quotes; None where it can't be one."""
        if self.word.startswith("`") and len(self.word) > 1:
            return self.word[1:-1].replace("``", "`")
        return self.word if self.word.isidentifier() else None

    def says(self, words: frozenset[str] | Sequence[str]) -> bool:
        """Whether it is one of these words, given in capitals."""
        return self.word.upper() in words

    def pass_over(self) -> None:
        """Go to the comma or the end of a list of tables, over what stands in parentheses."""
        depth = 0
        while self.word and not (depth == 0 and (self.word == "," or self.says(_BEHIND_NAMES))):
            depth += (self.word == "(") - (self.word == ")")
            self.next()


def _listed(glance: _Glance, *, before_columns: bool = False) -> Iterator[tuple[str, ...]]:
    """Names of a list of tables with commas between, whatever stands behind each."""
    while glance.word:
        if glance.says(("LATERAL", "TABLE")):
            glance.next()
            continue
        if glance.word == "(" and not before_columns:
            inside = glance.fork()
            if not inside.says(_QUERY):
                yield from _listed(inside)
        parts = []
        while (name := glance.name) is not None:
            parts.append(name)
            glance.next()
            if glance.word != ".":
                break
            glance.next()
        if parts:
            yield tuple(parts)
        glance.pass_over()
        if glance.word != ",":
            return
        before_columns = False
        glance.next()
