"""Names in a statement that may be tables, found by a glance at its words.

Most queries name no Delta table. Parsing each of them only to see that would take longer than
looking up the few names that stand where tables do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bayou.spark.statements.lexer import Token, glanced_tokens

__all__ = ["table_candidates"]

_BEFORE = ("FROM", "JOIN", "INTO", "OVERWRITE", "TABLE", "USING")
_QUERY = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_BEHIND_LIST = (
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
    "SET",
    "WHEN",
    ")",
)


def table_candidates(text: str) -> set[tuple[str, ...]]:
    """Every name that stands where a table may; others too, never fewer than there are.

    `table_changes` and its like are among them.

    Raises:
        StatementError: a quote is open.
    """
    words = glanced_tokens(text)
    found: set[tuple[str, ...]] = set()
    for number, word in enumerate(words):
        if word.text.upper() in _BEFORE and word.says(*_BEFORE):
            found.update(_listed(words, number + 1))
    return found


def _listed(words: Sequence[Token], first: int) -> Iterator[tuple[str, ...]]:
    """Names of a list of tables with commas between, whatever stands behind each."""
    at = first
    while at < len(words):
        if words[at].says("LATERAL", "TABLE"):
            at += 1
            continue
        if _opens_list(words, at):
            yield from _listed(words, at + 1)
        parts = []
        while at < len(words) and words[at].is_name:
            parts.append(words[at].text)
            at += 1
            if at >= len(words) or not words[at].says("."):
                break
            at += 1
        if parts:
            yield tuple(parts)
        depth = 0
        while at < len(words) and not (depth == 0 and words[at].says(",", *_BEHIND_LIST)):
            depth += words[at].says("(") - words[at].says(")")
            at += 1
        if at >= len(words) or not words[at].says(","):
            return
        at += 1


def _opens_list(words: Sequence[Token], at: int) -> bool:
    """Whether tables stand in the parentheses here: no query, and no columns of a join."""
    inside = words[at + 1 : at + 2]
    is_query = bool(inside) and inside[0].says(*_QUERY)
    return words[at].says("(") and not (is_query or words[at - 1].says("USING"))
