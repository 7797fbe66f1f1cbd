"""The tables that a query reads, by path or name, at a version or timestamp.

`table_references` parses the query with sqlglot. If sqlglot can't parse the query, the result has
only the tables with a path: ``delta.`/path` `` after a keyword such as FROM.

`table_candidates` is much faster, because it doesn't parse the statement: it returns the names
after keywords such as FROM. If none of these names is a Delta table, `table_references` isn't
called.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from operator import is_not

from sqlglot import exp
from sqlglot.dialects import Databricks
from sqlglot.errors import SqlglotError

from bayou.errors import StatementError
from bayou.protocol.sql import Token, tokenize
from bayou.spark.read.time_travel import path_travel
from bayou.spark.sql_statements.column_definitions import parse_properties
from bayou.spark.sql_statements.token_cursor import TokenCursor, is_path_name, statement_tokens

_SQLGLOT = Databricks()
_QUERY_KEYWORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_TABLE_KEYWORDS = ("FROM", "JOIN", "USING", "INTO", "TABLE", ",")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A table in a query.

    Attributes:
        parts: the parts of the name; `("delta", path)` for a path.
        start: offset of the reference's first character in the query.
        end: offset after the last character of the reference. The reference includes the version
            or timestamp, and the options.
        version: the version of `VERSION AS OF`, or of `@v12` at the end of a path.
        timestamp: the expression of `TIMESTAMP AS OF`, as SQL.
        has_alias: whether the query gives the table an alias. True for `table_changes`, and for
            the query `TABLE t`, which can't have an alias.
        changes: the arguments `start` and `end` of `table_changes(table, start[, end])`, as SQL;
            None if the reference isn't a call of `table_changes`.
        sample_end: offset after the TABLESAMPLE clause of the reference; None without the clause.
        options: the read options in `WITH ('key' = 'value')`.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    version: int | None = None
    timestamp: str | None = None
    has_alias: bool = False
    changes: tuple[str, ...] | None = None
    sample_end: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def path(self) -> str | None:
        """The path in ``delta.`/path` ``; None if the table is referenced by its name."""
        return self.parts[1] if is_path_name(self.parts) else None

    @property
    def alias_start(self) -> int:
        """Offset at which an alias can be inserted: after the reference and its TABLESAMPLE."""
        return self.end if self.sample_end is None else self.sample_end

    @property
    def has_time_travel(self) -> bool:
        """Whether the reference has a version or a timestamp."""
        return self.version is not None or self.timestamp is not None


def table_references(text: str) -> list[TableReference]:
    """Return the tables that a query reads, in order of occurrence.

    Common table expressions, which the query defines with `WITH`, aren't included.

    Raises:
        StatementError: a quote isn't closed, or a version isn't a number.
    """
    tokenized = statement_tokens(text)
    skipped = _explain_length(tokenized)
    references = _references_in_tree(text, tokenized[skipped:]) if tokenized[skipped:] else []
    if references is None:
        references = list(_paths_in_tokens(text, tokenized))
    references += _change_references(text, tokenized)
    return sorted((_with_version_in_path(r) for r in references), key=lambda r: r.start)


def _change_references(text: str, tokenized: Sequence[Token]) -> Iterator[TableReference]:
    """Find the calls of `table_changes(table, start[, end])` and `table_changes_by_path`."""
    for number, token in enumerate(tokenized[:-2]):
        if (
            not token.is_keyword("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH")
            or tokenized[number + 1].text != "("
        ):
            continue
        call = TokenCursor(text, tokenized, first=number + 2)
        expected = "the first version or timestamp"
        table = call.string("a table's name or path")
        name = ("delta", table) if token.is_keyword("TABLE_CHANGES_BY_PATH") else _parse_name(table)
        boundaries = []
        while call.take(","):
            boundaries.append(call.until_keywords(",", expected=expected))
        if not boundaries or len(boundaries) > 2:
            raise call.error(f"{expected}, and optionally the last version or timestamp")
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
    """Return the number of tokens before the query of an `EXPLAIN`; 0 for other statements."""
    if not tokenized or not tokenized[0].is_keyword("EXPLAIN"):
        return 0
    modes = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
    return 2 if len(tokenized) > 1 and tokenized[1].is_keyword(*modes) else 1


def _references_in_tree(text: str, tokenized: Sequence[Token]) -> list[TableReference] | None:
    """Find the tables in sqlglot's syntax tree; None if sqlglot can't parse the query."""
    if not tokenized[0].is_keyword(*_QUERY_KEYWORDS):
        return None
    skipped_characters = tokenized[0].start
    try:
        tree = _SQLGLOT.parse(_sqlglot_text(text, tokenized)[skipped_characters:])[0]
    except SqlglotError:
        return None
    if tree is None or isinstance(tree, exp.Command):
        return None
    by_start = {token.start: number for number, token in enumerate(tokenized)}
    references = []
    for table in tree.find_all(exp.Table):
        parts = tuple(part.name for part in table.parts)
        start = table.parts[0].meta.get("start") if isinstance(table.this, exp.Identifier) else None
        number = None if start is None else by_start.get(start + skipped_characters)
        if number is None or (len(parts) == 1 and _is_cte(table, parts[0].lower())):
            continue
        last = number + 2 * (len(parts) - 1)
        version = table.args.get("version")
        reference = _reference(
            text,
            tokenized,
            number,
            last,
            version.expression if isinstance(version, exp.Version) else None,
            named=bool(table.alias) or _is_table_query(tokenized, number - 1),
        )
        references.append(_with_clauses(text, tokenized, reference))
    return references


def _is_cte(table: exp.Table, name: str) -> bool:
    """Whether a table of sqlglot's syntax tree is a common table expression (CTE).

    A CTE is visible in the later CTEs of its WITH clause, and in the query after the clause. With
    RECURSIVE, a CTE is also visible in its own definition.

    Args:
        table: the table's node in the syntax tree.
        name: the table's name, in lower case.
    """
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        visible: list[exp.Expr] = []
        if isinstance(parent, exp.With):
            visible = [*takewhile(partial(is_not, node), parent.expressions)]
            if parent.recursive:
                visible.append(node)
        elif isinstance(clause := parent.args.get("with_"), exp.With) and clause is not node:
            visible = clause.expressions
        if any(cte.alias_or_name.lower() == name for cte in visible):
            return True
        node = parent
    return False


def _sqlglot_text(text: str, tokenized: Sequence[Token]) -> str:
    """Replace SQL that sqlglot can't parse by other text of the same length.

    Three kinds of SQL are replaced: tables with the name `table`, the keyword of the query `TABLE
    t`, and the read options in `WITH ('key' = 'value')`.
    """
    for number, token in enumerate(tokenized[:-1]):
        if token.is_keyword("WITH") and tokenized[number + 1].is_keyword("("):
            end = tokenized[_after_parentheses(tokenized, number + 1) - 1].end
            text = f"{text[: token.start]}{' ' * (end - token.start)}{text[end:]}"
    for number, token in enumerate(tokenized):
        if _is_table_query(tokenized, number):
            text = f"{text[: token.start]}FROM {text[token.end :]}"
    for before, token, after in zip(tokenized, tokenized[1:], [*tokenized[2:], None], strict=False):
        if not token.is_keyword("TABLE") or (after is not None and after.text == "("):
            continue
        if before.is_keyword("FROM", "JOIN") or (after is not None and after.text == "."):
            text = f"{text[: token.start]}t_ble{text[token.end :]}"
    return text


_SET_OPERATORS = ("UNION", "EXCEPT", "MINUS", "INTERSECT")
_AFTER_COLUMNS = (
    *("AND", "AS", "BETWEEN", "COLLATE", "DIV", "FROM", "IGNORE", "ILIKE", "IN", "IS", "LIKE"),
    *("NOT", "OR", "ORDER", "REGEXP", "RESPECT", "RLIKE"),
)
"""Keywords that can follow a column with the name `table`, such as `(table IS NULL)`."""


def _is_table_query(tokenized: Sequence[Token], number: int) -> bool:
    """Whether a token is the keyword of a query `TABLE t`, which returns all rows of `t`."""
    return (
        0 <= number < len(tokenized) - 1
        and tokenized[number].is_keyword("TABLE")
        and tokenized[number + 1].is_name
        and not tokenized[number + 1].is_keyword(*_AFTER_COLUMNS)
        and _can_start_query(tokenized, number)
    )


def _can_start_query(tokenized: Sequence[Token], number: int) -> bool:
    """Whether a query, or an operand of a set operator, can start at a token."""
    if number > 1 and tokenized[number - 1].is_keyword("ALL", "DISTINCT"):
        number -= 1  # the keyword before can also be SELECT: `SELECT DISTINCT table`
        return tokenized[number - 1].is_keyword(*_SET_OPERATORS)
    return number == 0 or tokenized[number - 1].is_keyword("(", *_SET_OPERATORS)


def _paths_in_tokens(text: str, tokenized: Sequence[Token]) -> Iterator[TableReference]:
    """Find the tables that a query refers to by path, without a syntax tree of the query."""
    for number in range(1, len(tokenized) - 2):
        schema, dot, path = tokenized[number : number + 3]
        if (
            tokenized[number - 1].is_keyword(*_TABLE_KEYWORDS)
            and dot.text == "."
            and is_path_name((schema.text, path.text))
        ):
            follows = tokenized[number + 3] if number + 3 < len(tokenized) else None
            named = follows is not None and (follows.is_keyword("AS") or follows.is_name)
            reference = _reference(text, tokenized, number, number + 2, None, named=named)
            yield _with_clauses(text, tokenized, reference)


def _reference(
    text: str,
    tokenized: Sequence[Token],
    first: int,
    last: int,
    time_travel: exp.Expr | None,
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
        close = _time_travel_end(text, tokenized, value, time_travel)
        timestamp = text[tokenized[value].start : close]
        return TableReference(
            parts=parts, start=start, end=close, timestamp=timestamp, has_alias=named
        )
    return TableReference(parts=parts, start=start, end=end, has_alias=named)


def _time_travel_end(
    text: str, tokenized: Sequence[Token], first: int, time_travel: exp.Expr | None
) -> int:
    """Return the character offset after the expression of a TIMESTAMP AS OF clause.

    sqlglot doesn't store the end of an expression. Therefore the function parses one token, then
    two tokens, and so on, until the parsed expression equals `time_travel`.

    Args:
        first: index of the first token of the expression.
        time_travel: the expression in sqlglot's syntax tree. If None, there is no syntax tree, and
            the expression is a single token.
    """
    if time_travel is not None:
        for token in tokenized[first:]:
            try:
                expression = _SQLGLOT.parse(text[tokenized[first].start : token.end])[0]
            except SqlglotError:
                continue
            if expression == time_travel:
                return token.end
    return tokenized[first].end


def _with_clauses(
    text: str, tokenized: Sequence[Token], reference: TableReference
) -> TableReference:
    """Parse the clauses `WITH (options)` and TABLESAMPLE after a reference."""
    number = bisect_left(tokenized, reference.end, key=lambda token: token.start)
    cursor = TokenCursor(text, tokenized, first=number)
    if cursor.next_are("WITH", "("):
        cursor.expect("WITH")
        options = parse_properties(cursor)
        end = tokenized[_after_parentheses(tokenized, number + 1) - 1].end
        reference = replace(reference, end=end, options=options)
    return replace(reference, sample_end=_sample_end(tokenized, reference.end))


def _sample_end(tokenized: Sequence[Token], start: int) -> int | None:
    """Return the end offset of a TABLESAMPLE clause; None if there is no such clause.

    Args:
        start: character offset. Only the first token at or after `start` can begin the clause.
    """
    number = bisect_left(tokenized, start, key=lambda token: token.start)
    end = None
    for keyword in ("TABLESAMPLE", "REPEATABLE"):
        if number + 1 >= len(tokenized) or not tokenized[number].is_keyword(keyword):
            break
        number = _after_parentheses(tokenized, number + 1)
        end = tokenized[number - 1].end
    return end


def _after_parentheses(tokenized: Sequence[Token], first: int) -> int:
    """Return the index of the token after the parentheses that open at token `first`."""
    depth = 0
    for number in range(first, len(tokenized)):
        depth += tokenized[number].is_keyword("(") - tokenized[number].is_keyword(")")
        if depth == 0:
            return number + 1
    return len(tokenized)


def _version(text: str, token: Token) -> int:
    if not token.text.isdecimal():
        raise StatementError(
            f"VERSION AS OF {token.text}: the version isn't a number. Use 0 or a positive integer.",
            statement=text,
        )
    return int(token.text)


def _with_version_in_path(reference: TableReference) -> TableReference:
    """Parse a version or timestamp at the end of the reference's path.

    As in delta-spark, a path can be `/table@v12` or `/table@20240105100000000`. The result is a
    reference to `/table` that has the version or timestamp.
    """
    time_travel = None if reference.path is None else path_travel(reference.path)
    if time_travel is None or reference.has_time_travel:
        return reference
    return replace(
        reference,
        parts=(reference.parts[0], time_travel.path),
        version=time_travel.version,
        timestamp=None if time_travel.timestamp is None else f"'{time_travel.timestamp}'",
    )


def is_insert_target(text: str, reference: TableReference) -> bool:
    """Whether a table is the target of an INSERT inside a query: `WITH ... INSERT INTO table`."""
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
"""Tokens, separated by `|`, that can follow a table and its alias in a list of tables."""


def table_candidates(text: str) -> set[tuple[str, ...]]:
    """Return the names of all tables in a statement, and possibly names of other things."""
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
    """Return the names in a comma-separated list of tables, without aliases.

    Args:
        before_columns: whether parentheses at the start of the list contain column names, as in
            `JOIN t USING (a, b)`. Otherwise they contain tables or a query.
    """
    while not cursor.at_end:
        if cursor.take("LATERAL"):
            continue
        if cursor.take("TABLE"):
            if not cursor.next_are("("):
                yield ("table",)  # the keyword, or a table with this name
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
