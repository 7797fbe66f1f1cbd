"""The tables that a query reads, by path or name, at a version or timestamp.

`table_references` parses the query with sqlglot. If sqlglot can't parse it, the keyword before a
path identifies the path as a table.

`table_candidates` scans a statement for names after keywords such as FROM, without parsing it. Most
statements name no Delta table, and the scan is much faster than the parser for a long statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from bayou.errors import StatementError
from bayou.spark.read.time_travel import path_travel
from bayou.spark.sql_statements.token_cursor import DIALECT, Token, TokenCursor, tokenize

__all__ = ["TableReference", "table_candidates", "table_references"]


_PARSED = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_TABLE_KEYWORDS = ("FROM", "JOIN", "USING", "INTO", "TABLE", ",")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table in a query.

    Attributes:
        parts: the parts of the name; `("delta", path)` for a path.
        start: offset of the reference's first character in the query.
        end: offset after the reference's last character, the version or timestamp included.
        version: the version of `VERSION AS OF`, or of `@v12` at the end of a path.
        timestamp: the expression of `TIMESTAMP AS OF`, as SQL.
        has_alias: whether the reference has an alias.
        changes: start and end of `table_changes(table, start, end)`, as SQL; None for a table.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    version: int | None = None
    timestamp: str | None = None
    has_alias: bool = False
    changes: tuple[str, ...] | None = None

    @property
    def path(self) -> str | None:
        """The path of ``delta.`path` ``; None for a name."""
        return self.parts[1] if _is_path(self.parts) else None

    @property
    def travels(self) -> bool:
        """Whether the reference has a version or a timestamp."""
        return self.version is not None or self.timestamp is not None


def table_references(text: str) -> list[TableReference]:
    """The tables that a query reads, in order; names that its `WITH` defines are left out.

    Raises:
        StatementError: a quote is open, or a version isn't a number.
    """
    tokenized = tokenize(text)
    skipped = _explain_length(tokenized)
    references = _from_tree(text, tokenized[skipped:]) if tokenized[skipped:] else []
    if references is None:
        references = list(_from_tokens(text, tokenized))
    references += _change_references(text, tokenized)
    return sorted((_with_travel_in_path(r) for r in references), key=lambda r: r.start)


def _change_references(text: str, tokenized: Sequence[Token]) -> Iterator[TableReference]:
    """`table_changes(table, start[, end])` and `table_changes_by_path(path, ...)`."""
    for number, token in enumerate(tokenized[:-2]):
        if (
            not token.is_keyword("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH")
            or tokenized[number + 1].text != "("
        ):
            continue
        call = TokenCursor(text, list(tokenized[number + 2 :]))
        what = "the first version or timestamp"
        table = call.string("a table's name or path")
        name = ("delta", table) if token.is_keyword("TABLE_CHANGES_BY_PATH") else _parse_name(table)
        boundaries = []
        while call.take(","):
            boundaries.append(call.until_keywords(",", what=what))
        if not boundaries or len(boundaries) > 2:
            raise call.error(f"{what}, and optionally the last one")
        end = call.offset
        call.expect(")")
        yield TableReference(
            parts=name, start=token.start, end=end + 1, has_alias=True, changes=tuple(boundaries)
        )


def _parse_name(string: str) -> tuple[str, ...]:
    """The parts of a table name."""
    cursor = TokenCursor(string)
    parts = cursor.column("a table's name")
    cursor.expect_end()
    return parts


def _explain_length(tokenized: Sequence[Token]) -> int:
    """The number of tokens of `EXPLAIN ...` before the query."""
    if not tokenized or not tokenized[0].is_keyword("EXPLAIN"):
        return 0
    modes = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
    return 2 if len(tokenized) > 1 and tokenized[1].is_keyword(*modes) else 1


def _from_tree(text: str, tokenized: Sequence[Token]) -> list[TableReference] | None:
    """The references in sqlglot's syntax tree; None if sqlglot can't parse the query."""
    if not tokenized[0].is_keyword(*_PARSED):
        return None
    shift = tokenized[0].start
    try:
        tree = DIALECT.parse(text[shift:])[0]
    except SqlglotError:
        return None
    if tree is None or isinstance(tree, exp.Command):
        return None
    defined = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    by_start = {token.start: number for number, token in enumerate(tokenized)}
    references = []
    for table in tree.find_all(exp.Table):
        parts = tuple(part.name for part in table.parts)
        start = table.parts[0].meta.get("start") if isinstance(table.this, exp.Identifier) else None
        number = None if start is None else by_start.get(start + shift)
        if number is None or (len(parts) == 1 and parts[0].lower() in defined):
            continue
        last = number + 2 * (len(parts) - 1)
        version = table.args.get("version")
        references.append(
            _reference(
                text,
                tokenized,
                number,
                last,
                version.expression if isinstance(version, exp.Version) else None,
                named=bool(table.alias),
            )
        )
    return references


def _from_tokens(text: str, tokenized: Sequence[Token]) -> Iterator[TableReference]:
    """References by path only: without a syntax tree a name might not be a table."""
    for number in range(1, len(tokenized) - 2):
        schema, dot, path = tokenized[number : number + 3]
        if (
            tokenized[number - 1].is_keyword(*_TABLE_KEYWORDS)
            and dot.text == "."
            and _is_path((schema.text, path.text))
        ):
            follows = tokenized[number + 3] if number + 3 < len(tokenized) else None
            named = follows is not None and (follows.is_keyword("AS") or follows.is_name)
            yield _reference(text, tokenized, number, number + 2, None, named=named)


def _reference(
    text: str,
    tokenized: Sequence[Token],
    first: int,
    last: int,
    travel: exp.Expr | None,
    *,
    named: bool,
) -> TableReference:
    parts = tuple(token.text for token in tokenized[first : last + 1 : 2])
    start, end = tokenized[first].start, tokenized[last].end
    after = last + 1
    if after < len(tokenized) and tokenized[after].is_keyword("FOR"):
        after += 1
    clause = tokenized[after : after + 3]
    if len(clause) < 3 or not (clause[1].is_keyword("AS") and clause[2].is_keyword("OF")):
        return TableReference(parts=parts, start=start, end=end, has_alias=named)
    value = after + 3
    if clause[0].is_keyword("VERSION", "SYSTEM_VERSION") and value < len(tokenized):
        return TableReference(
            parts=parts,
            start=start,
            end=tokenized[value].end,
            version=_version(text, tokenized[value]),
            has_alias=named,
        )
    if clause[0].is_keyword("TIMESTAMP", "SYSTEM_TIME") and value < len(tokenized):
        close = _end_of(text, tokenized, value, travel)
        timestamp = text[tokenized[value].start : close]
        return TableReference(
            parts=parts, start=start, end=close, timestamp=timestamp, has_alias=named
        )
    return TableReference(parts=parts, start=start, end=end, has_alias=named)


def _end_of(text: str, tokenized: Sequence[Token], first: int, travel: exp.Expr | None) -> int:
    """The end offset of the time travel expression that starts at a token.

    It is the end of the shortest SQL that parses to the same expression.
    """
    if travel is not None:
        for token in tokenized[first:]:
            try:
                expression = DIALECT.parse(text[tokenized[first].start : token.end])[0]
            except SqlglotError:
                continue
            if expression == travel:
                return token.end
    return tokenized[first].end


def _version(text: str, token: Token) -> int:
    if not token.text.isdecimal():
        raise StatementError(
            f"VERSION AS OF {token.text}: the version isn't a number. Use an integer from 0.",
            statement=text,
        )
    return int(token.text)


def _with_travel_in_path(reference: TableReference) -> TableReference:
    """The reference with the version of a path such as `/table@v12` or `/table@20240105100000000`.

    delta-spark supports these paths too.
    """
    travel = None if reference.path is None else path_travel(reference.path)
    if travel is None or reference.travels:
        return reference
    return TableReference(
        parts=(reference.parts[0], travel.path),
        start=reference.start,
        end=reference.end,
        version=travel.version,
        timestamp=None if travel.timestamp is None else f"'{travel.timestamp}'",
        has_alias=reference.has_alias,
    )


def _is_path(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() == "delta"


_SCANNED_KEYWORDS = ("from", "join", "into", "overwrite", "table", "using")
_UPDATE_KEYWORD = "update"

_QUERY = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE"})
_LIST_ENDS = frozenset(
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
        *(word.upper() for word in _SCANNED_KEYWORDS),
    }
)
"""Tokens that end a list of tables; `_table_positions` finds the keyword of a further list."""

_BLANK = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
_WORD = re.compile(
    r"\w+|`(?:[^`]|``)*`|[rR]?'(?:[^'\\]|\\.)*'|[rR]?\"(?:[^\"\\]|\\.)*\"|.", re.DOTALL
)


def table_candidates(text: str) -> set[tuple[str, ...]]:
    """The names that may be tables: a superset of the tables of a statement.

    It includes functions such as `table_changes`, and names in string literals.
    """
    candidates: set[tuple[str, ...]] = set()
    for end, before_columns in _table_positions(text):
        scanner = _Scanner(text, end)
        if not scanner.says(("SET",)):  # UPDATE SET in a MERGE
            candidates.update(_listed_names(scanner, before_columns=before_columns))
    return candidates


def _table_positions(text: str) -> Iterator[tuple[int, bool]]:
    """End offsets of the keywords before tables, and whether columns can follow the keyword."""
    # U+0130 becomes two characters in lower case, which would shift the offsets after it.
    lowered = text.replace("\u0130", "i").lower()
    for word in (*_SCANNED_KEYWORDS, _UPDATE_KEYWORD):
        at = lowered.find(word)
        while at >= 0:
            end = at + len(word)
            if not (_is_in_word(lowered[at - 1 : at]) or _is_in_word(lowered[end : end + 1])):
                yield end, word == "using"
            at = lowered.find(word, end)


def _is_in_word(character: str) -> bool:
    return character.isalnum() or (character != "" and character in "_`")


class _Scanner:
    """A position in a statement and the token before it; blanks and comments are skipped."""

    __slots__ = ("_text", "end", "word")

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.end = at
        self.word = ""
        self.next()

    def next(self) -> None:
        """Move to the next token; at the end of the statement the token is empty."""
        blank = _BLANK.match(self._text, self.end)
        match = _WORD.match(self._text, self.end if blank is None else blank.end())
        self.word = "" if match is None else match[0]
        self.end = len(self._text) if match is None else match.end()

    def fork(self) -> _Scanner:
        """A second scanner, at the token after this one."""
        return _Scanner(self._text, self.end)

    @property
    def name(self) -> str | None:
        """The token as a name, without its backticks; None if it isn't a name."""
        if self.word.startswith("`") and len(self.word) > 1:
            return self.word[1:-1].replace("``", "`")
        return self.word if self.word.isidentifier() else None

    def says(self, keywords: frozenset[str] | Sequence[str]) -> bool:
        """Whether the token is one of these keywords, which are in capitals."""
        return self.word.upper() in keywords

    def skip_item(self) -> None:
        """Move to the next comma, or to the end of a list of tables, outside of parentheses."""
        depth = 0
        while self.word and not (depth == 0 and (self.word == "," or self.says(_LIST_ENDS))):
            depth += (self.word == "(") - (self.word == ")")
            self.next()


def _listed_names(scanner: _Scanner, *, before_columns: bool = False) -> Iterator[tuple[str, ...]]:
    """The names in a list of tables; aliases and other tokens after a name are skipped."""
    while scanner.word:
        if scanner.says(("LATERAL", "TABLE")):
            scanner.next()
            continue
        if scanner.word == "(" and not before_columns:
            inside = scanner.fork()
            if not inside.says(_QUERY):
                yield from _listed_names(inside)
        parts = []
        while (name := scanner.name) is not None:
            parts.append(name)
            scanner.next()
            if scanner.word != ".":
                break
            scanner.next()
        if parts:
            yield tuple(parts)
        scanner.skip_item()
        if scanner.word != ",":
            return
        before_columns = False
        scanner.next()
