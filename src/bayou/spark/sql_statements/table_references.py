"""The tables that a query reads, by path or name, at a version or timestamp.

`table_references` parses the query with sqlglot. If sqlglot can't parse the query, only tables by
path are found: ``delta.`/path` `` after a keyword such as FROM.

`table_candidates` returns the names after keywords such as FROM, without parsing the statement.
This is much faster than the parser, and sufficient for most statements: they name no Delta table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects import Databricks
from sqlglot.errors import SqlglotError

from bayou.errors import StatementError
from bayou.protocol.sql import Token, tokenize
from bayou.spark.read.time_travel import path_travel
from bayou.spark.sql_statements.token_cursor import TokenCursor, statement_tokens

_SQLGLOT = Databricks()
_PARSED = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_TABLE_KEYWORDS = ("FROM", "JOIN", "USING", "INTO", "TABLE", ",")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table in a query.

    Attributes:
        parts: the parts of the name; `("delta", path)` for a path.
        start: offset of the reference's first character in the query.
        end: offset after the last character of the reference, which includes the version or
            timestamp.
        version: the version of `VERSION AS OF`, or of `@v12` at the end of a path.
        timestamp: the expression of `TIMESTAMP AS OF`, as SQL.
        changes: the arguments `start` and `end` of `table_changes(table, start[, end])`, as SQL;
            None if the reference isn't a call of `table_changes`.
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
    """Return the tables that a query reads, in order of occurrence, without names from `WITH`.

    Raises:
        StatementError: a quote isn't closed, or a version isn't a number.
    """
    tokenized = statement_tokens(text)
    skipped = _explain_length(tokenized)
    references = _from_tree(text, tokenized[skipped:]) if tokenized[skipped:] else []
    if references is None:
        references = list(_from_tokens(text, tokenized))
    references += _change_references(text, tokenized)
    return sorted((_with_travel_in_path(r) for r in references), key=lambda r: r.start)


def _change_references(text: str, tokenized: Sequence[Token]) -> Iterator[TableReference]:
    """Find the calls of `table_changes(table, start[, end])` and `table_changes_by_path`."""
    for number, token in enumerate(tokenized[:-2]):
        if (
            not token.is_keyword("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH")
            or tokenized[number + 1].text != "("
        ):
            continue
        call = TokenCursor(text, tokenized, first=number + 2)
        what = "the first version or timestamp"
        table = call.string("a table's name or path")
        name = ("delta", table) if token.is_keyword("TABLE_CHANGES_BY_PATH") else _parse_name(table)
        boundaries = []
        while call.take(","):
            boundaries.append(call.until_keywords(",", what=what))
        if not boundaries or len(boundaries) > 2:
            raise call.error(f"{what}, and optionally the last version or timestamp")
        end = call.offset
        call.expect(")")
        yield TableReference(
            parts=name, start=token.start, end=end + 1, has_alias=True, changes=tuple(boundaries)
        )


def _parse_name(string: str) -> tuple[str, ...]:
    cursor = TokenCursor(string)
    parts = cursor.column("a table's name")
    cursor.expect_end()
    return parts


def _explain_length(tokenized: Sequence[Token]) -> int:
    """Return the number of tokens of `EXPLAIN` and its mode; 0 if the statement isn't `EXPLAIN`."""
    if not tokenized or not tokenized[0].is_keyword("EXPLAIN"):
        return 0
    modes = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
    return 2 if len(tokenized) > 1 and tokenized[1].is_keyword(*modes) else 1


def _from_tree(text: str, tokenized: Sequence[Token]) -> list[TableReference] | None:
    """Find the tables in sqlglot's syntax tree; None if sqlglot can't parse the query."""
    if not tokenized[0].is_keyword(*_PARSED):
        return None
    shift = tokenized[0].start
    try:
        tree = _SQLGLOT.parse(text[shift:])[0]
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
    """Find the tables that are paths. Without a syntax tree, other tables can't be recognized."""
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
    """Return the end offset of the time travel expression that starts at token `first`.

    `travel` is the expression in sqlglot's syntax tree. The end is found by parsing longer and
    longer SQL until the result equals `travel`. If `travel` is None, the expression is one token.
    """
    if travel is not None:
        for token in tokenized[first:]:
            try:
                expression = _SQLGLOT.parse(text[tokenized[first].start : token.end])[0]
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
    """Move a version or timestamp from the end of a path to the reference's attributes.

    As in delta-spark, paths can be `/table@v12` or `/table@20240105100000000`.
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


def is_written(text: str, reference: TableReference) -> bool:
    """Whether the table is the target of an INSERT, as in `WITH ... INSERT INTO table`."""
    before = [token for token in tokenize(text) if token.end <= reference.start]
    if before and before[-1].is_keyword("TABLE"):
        before.pop()
    return bool(before) and before[-1].is_keyword("INTO", "OVERWRITE")


_BEFORE_TABLES = ("FROM", "JOIN", "INTO", "OVERWRITE", "TABLE", "USING", "UPDATE")
_QUERY = "SELECT|WITH|VALUES|FROM|TABLE"
_LIST_ENDS = (
    ",|WHERE|GROUP|ORDER|HAVING|LIMIT|UNION|EXCEPT|INTERSECT|WINDOW|SELECT|VALUES|SET|WHEN|;"
    "|FROM|JOIN|INTO|OVERWRITE|TABLE|USING"
)
"""Tokens that end a table, or a list of tables, in a statement."""


def table_candidates(text: str) -> set[tuple[str, ...]]:
    """Return all tables in a statement, and possibly names that aren't tables."""
    tokens = list(tokenize(text))
    candidates: set[tuple[str, ...]] = set()
    for number, token in enumerate(tokens):
        if token.kind == "word" and token.is_keyword(*_BEFORE_TABLES):
            cursor = TokenCursor(text, tokens, first=number + 1)
            if not cursor.next_are("SET"):  # UPDATE SET in a MERGE
                candidates.update(_listed_names(cursor, before_columns=token.is_keyword("USING")))
    return candidates


def _listed_names(
    cursor: TokenCursor, *, before_columns: bool = False
) -> Iterator[tuple[str, ...]]:
    """Return the names in a comma-separated list of tables, without their aliases.

    `before_columns` is true after USING, which can be followed by columns in parentheses.
    """
    while not cursor.at_end:
        if cursor.take("LATERAL|TABLE"):
            continue
        if not before_columns and cursor.next_are("("):
            inside = cursor.fork()
            inside.expect("(")
            if not inside.next_are(_QUERY):
                yield from _listed_names(inside)
        parts = []
        while cursor.at_name:
            parts.append(cursor.name())
            if not cursor.take("."):
                break
        if parts:
            yield tuple(parts)
        cursor.skip_until(lambda: cursor.next_are(_LIST_ENDS))
        if not cursor.take(","):
            return
        before_columns = False
