"""Which tables a query reads: Delta tables by path or name, at a version or a time.

sqlglot tells where tables stand in a statement. Where it can't parse one, tables are found by
the words before them.

Names in a statement that may be tables, found by a glance at the words before them.

Most statements name no Delta table. Taking each apart only to see that would take longer than
looking up the few names that stand where tables do: a statement of 100 kB is mostly values, which
nobody has to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from bayou.errors import StatementError
from bayou.spark.read.time_travel import path_travel
from bayou.spark.sql_statements.token_cursor import DIALECT, Token, Words, tokens

__all__ = ["TableReference", "table_candidates", "table_references"]


_PARSED = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_BEFORE_A_TABLE = ("FROM", "JOIN", "USING", "INTO", "TABLE", ",")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table in a query.

    Attributes:
        parts: its name, one or more parts; `("delta", path)` for a path.
        start: offset of its first character in the text.
        end: offset behind its last one, the version or time included.
        version: of `VERSION AS OF`, or of `@v12` at the end of a path.
        timestamp: SQL text of the expression of `TIMESTAMP AS OF`.
        named: whether it has an alias of its own.
        changes: of `table_changes(table, start, end)`, SQL text of start and end; None for rows.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    version: int | None = None
    timestamp: str | None = None
    named: bool = False
    changes: tuple[str, ...] | None = None

    @property
    def path(self) -> str | None:
        """The path of ``delta.`path` ``; None for a name."""
        return self.parts[1] if _is_path(self.parts) else None

    @property
    def travels(self) -> bool:
        """Whether it asks for a version or a time."""
        return self.version is not None or self.timestamp is not None


def table_references(text: str) -> list[TableReference]:
    """Tables that a query reads, in the order of the text; names of its own `WITH` left out.

    Raises:
        StatementError: a quote is open, or a version isn't a number.
    """
    words = tokens(text)
    skipped = _explained(words)
    found = _by_tree(text, words[skipped:]) if words[skipped:] else []
    if found is None:
        found = list(_by_words(text, words))
    found += _changes(text, words)
    return sorted((_with_travel_in_path(r) for r in found), key=lambda r: r.start)


def _changes(text: str, words: Sequence[Token]) -> Iterator[TableReference]:
    """`table_changes(table, start[, end])` and `table_changes_by_path(path, ...)`."""
    for number, word in enumerate(words[:-2]):
        if not word.says("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH") or words[number + 1].text != "(":
            continue
        call = Words(text, list(words[number + 2 :]))
        what = "the first version, or a time"
        given = call.string("a table's name or path, in quotes")
        name = ("delta", given) if word.says("TABLE_CHANGES_BY_PATH") else _named_in(given)
        boundaries = []
        while call.take(","):
            boundaries.append(call.until_words(",", what=what))
        if not boundaries or len(boundaries) > 2:
            raise call.error(f"{what}, and perhaps the last one")
        end = call.offset
        call.expect(")")
        yield TableReference(
            parts=name, start=word.start, end=end + 1, named=True, changes=tuple(boundaries)
        )


def _named_in(given: str) -> tuple[str, ...]:
    """A name written into a text."""
    words = Words(given)
    found = words.column("a table's name")
    words.end()
    return found


def _explained(words: Sequence[Token]) -> int:
    """How many words of `EXPLAIN ...` stand before the query."""
    if not words or not words[0].says("EXPLAIN"):
        return 0
    modes = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
    return 2 if len(words) > 1 and words[1].says(*modes) else 1


def _by_tree(text: str, words: Sequence[Token]) -> list[TableReference] | None:
    if not words[0].says(*_PARSED):
        return None
    shift = words[0].start
    try:
        tree = DIALECT.parse(text[shift:])[0]
    except SqlglotError:
        return None
    if tree is None or isinstance(tree, exp.Command):
        return None
    defined = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    by_start = {word.start: number for number, word in enumerate(words)}
    found = []
    for table in tree.find_all(exp.Table):
        parts = tuple(part.name for part in table.parts)
        start = table.parts[0].meta.get("start") if isinstance(table.this, exp.Identifier) else None
        number = None if start is None else by_start.get(start + shift)
        if number is None or (len(parts) == 1 and parts[0].lower() in defined):
            continue
        last = number + 2 * (len(parts) - 1)
        version = table.args.get("version")
        found.append(
            _reference(
                text,
                words,
                number,
                last,
                version.expression if isinstance(version, exp.Version) else None,
                named=bool(table.alias),
            )
        )
    return found


def _by_words(text: str, words: Sequence[Token]) -> Iterator[TableReference]:
    """Paths only: without a tree a name might be anything."""
    for number in range(1, len(words) - 2):
        schema, dot, path = words[number : number + 3]
        if (
            words[number - 1].says(*_BEFORE_A_TABLE)
            and dot.text == "."
            and _is_path((schema.text, path.text))
        ):
            follows = words[number + 3] if number + 3 < len(words) else None
            named = follows is not None and (follows.says("AS") or follows.is_name)
            yield _reference(text, words, number, number + 2, None, named=named)


def _reference(
    text: str,
    words: Sequence[Token],
    first: int,
    last: int,
    travel: exp.Expr | None,
    *,
    named: bool,
) -> TableReference:
    parts = tuple(word.text for word in words[first : last + 1 : 2])
    start, end = words[first].start, words[last].end
    after = last + 1
    if after < len(words) and words[after].says("FOR"):
        after += 1
    clause = words[after : after + 3]
    if len(clause) < 3 or not (clause[1].says("AS") and clause[2].says("OF")):
        return TableReference(parts=parts, start=start, end=end, named=named)
    value = after + 3
    if clause[0].says("VERSION", "SYSTEM_VERSION") and value < len(words):
        return TableReference(
            parts=parts,
            start=start,
            end=words[value].end,
            version=_version(text, words[value]),
            named=named,
        )
    if clause[0].says("TIMESTAMP", "SYSTEM_TIME") and value < len(words):
        close = _end_of(text, words, value, travel)
        timestamp = text[words[value].start : close]
        return TableReference(parts=parts, start=start, end=close, timestamp=timestamp, named=named)
    return TableReference(parts=parts, start=start, end=end, named=named)


def _end_of(text: str, words: Sequence[Token], first: int, travel: exp.Expr | None) -> int:
    """Where the expression ends that begins with a word: the shortest text that means the same."""
    if travel is not None:
        for word in words[first:]:
            try:
                parsed = DIALECT.parse(text[words[first].start : word.end])[0]
            except SqlglotError:
                continue
            if parsed == travel:
                return word.end
    return words[first].end


def _version(text: str, word: Token) -> int:
    if not word.text.isdecimal():
        raise StatementError(
            f"VERSION AS OF {word.text}: a version is a number from 0 on.", statement=text
        )
    return int(word.text)


def _with_travel_in_path(reference: TableReference) -> TableReference:
    """`/table@v12` and `/table@20240105100000000`, as delta-spark takes them."""
    found = None if reference.path is None else path_travel(reference.path)
    if found is None or reference.travels:
        return reference
    return TableReference(
        parts=(reference.parts[0], found.path),
        start=reference.start,
        end=reference.end,
        version=found.version,
        timestamp=None if found.timestamp is None else f"'{found.timestamp}'",
        named=reference.named,
    )


def _is_path(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() == "delta"


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
