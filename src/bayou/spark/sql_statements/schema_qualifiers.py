"""Replaces tables in a query by DataFrames or views, and adapts qualified column names.

The alias of the DataFrame or view is the table's name without its schema, because an alias is a
single name. A column such as `sales.orders.id` therefore becomes `orders.id`.

The name `orders` can be ambiguous: another table, alias or column of the query may also be called
`orders`. In this case the alias is the table's full name, and the column becomes
`` `spark_catalog.sales.orders`.id ``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from bayou.protocol.sql import Token, quote_identifier
from bayou.spark.sql_statements.context import quoted_table_name
from bayou.spark.sql_statements.table_references import TableReference, table_candidates
from bayou.spark.sql_statements.token_cursor import TableName, is_path_name, statement_tokens

FullName = tuple[str, str, str]
"""Catalog, schema and name of a table, in lower case."""

_Chain = Sequence[Token]
"""The tokens `a`, `b` and `c` of a dotted name `a.b.c`. The last token can be `*`."""

_QUERY = ("FROM", "SELECT", "TABLE", "VALUES", "WITH")
_BEFORE_TABLES = ("FROM", "INTO", "JOIN", "UPDATE", "USING")


@dataclass(frozen=True, slots=True)
class _Edit:
    """Replaces the characters from `start` to `end` of a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renaming:
    """The changes to the column references of an SQL text.

    Attributes:
        edits: the changes.
        aliases: an alias for each table whose name without its schema is ambiguous. The alias is
            the table's full name.
    """

    edits: list[_Edit] = field(default_factory=list)
    aliases: dict[FullName, str] = field(default_factory=dict)


def replace_tables(
    spark: Any,
    query: str,
    replacements: Sequence[tuple[TableReference, str]],
    escape: Callable[[str], str] = str,
) -> str:
    """Replace the tables of a query by other SQL, such as the names of views.

    If a table has no alias, an alias with the table's name is added. Columns that are qualified
    with the table's name then remain valid.

    Args:
        replacements: table references in `query`, each with the SQL that replaces it.
        escape: function that is applied to the SQL of the query, but not to the replacements.
    """
    tokens = statement_tokens(query)
    starts = {reference.start for reference, _ in replacements}
    unnamed = [r for r, _ in replacements if not (r.has_alias or r.path is not None)]
    names: dict[int, FullName] = {}
    renaming = _Renaming()
    if any(_chains(tokens, starts, at_least=3)):
        names = {r.start: _full_name(spark, r.parts) for r in unnamed}
        renaming = _renaming(spark, query, starts, names)
    edits = [_Edit(edit.start, edit.end, escape(edit.text)) for edit in renaming.edits]
    edits += [_Edit(r.start, r.end, replacement) for r, replacement in replacements]
    for reference in unnamed:
        alias = reference.parts[-1]
        if reference.start in names:
            alias = renaming.aliases.get(names[reference.start], alias)
        at = reference.alias_start
        edits.append(_Edit(at, at, escape(f" AS {quote_identifier(alias)}")))
    return _edited(query, edits, escape)


def without_schemas(spark: Any, statement: str, tables: Sequence[TableName]) -> str:
    """Remove the schema from qualified column names in an UPDATE, DELETE or MERGE.

    For example, `sales.orders.id` becomes `orders.id`. If the name `orders` is ambiguous in the
    statement, the columns of `orders` aren't changed.

    Args:
        tables: the tables that have no alias in the statement.
    """
    tokens = statement_tokens(statement)
    if not any(_chains(tokens, (), at_least=3)):
        return statement
    full_names = {
        tuple(part.lower() for part in table): _full_name(spark, table) for table in tables
    }
    names: dict[int, FullName] = {}
    for number, token in enumerate(tokens[1:], 1):
        if tokens[number - 1].is_keyword(*_BEFORE_TABLES):
            full_name = full_names.get(_lower_case(_chain_at(tokens, number)))
            if full_name is not None:
                names[token.start] = full_name
    renaming = _renaming(spark, statement, names.keys(), names)
    return statement if renaming.aliases else _edited(statement, renaming.edits)


def _full_name(spark: Any, parts: Sequence[str]) -> FullName:
    names = [part.lower() for part in parts]
    if len(names) < 2:
        names.insert(0, str(spark.catalog.currentDatabase()).lower())
    if len(names) < 3:
        names.insert(0, str(spark.catalog.currentCatalog()).lower())
    catalog, schema, name = names[-3:]
    return catalog, schema, name


def _renaming(spark: Any, text: str, starts: Any, tables: Mapping[int, FullName]) -> _Renaming:
    """Return the changes to columns that are qualified with a table's schema and name.

    Args:
        starts: the character offsets of all table references in the text.
        tables: the full name of each table that has no alias. The key is the character offset of
            the reference to the table.
    """
    tokens = statement_tokens(text)
    result = _Renaming()
    qualified: dict[FullName, list[tuple[_Chain, int]]] = {}
    column_names = cache(lambda: _column_names(spark, text))
    for chain in _chains(tokens, starts, at_least=3):
        match = _qualifier(chain, tables.values())
        if match is not None and not _is_field(chain, match[1], column_names()):
            full_name, length = match
            qualified.setdefault(full_name, []).append((chain, length))
    for full_name, chains in qualified.items():
        if not (
            _has_other_meaning(tokens, starts, tables, full_name)
            or (_has_subquery(tokens) and full_name[-1] in column_names())
        ):
            result.edits.extend(
                _Edit(chain[0].start, chain[length - 1].start, "") for chain, length in chains
            )
        elif not any(c[0].text.lower() == full_name[-1] for c in _chains(tokens, starts, 2)):
            alias = ".".join(full_name)
            result.aliases[full_name] = alias
            result.edits.extend(
                _Edit(chain[0].start, chain[length - 1].end, quote_identifier(alias))
                for chain, length in chains
            )
    return result


def _qualifier(chain: _Chain, tables: Any) -> tuple[FullName, int] | None:
    """Find the table whose schema and name qualify a column; None if there is no such table.

    Args:
        chain: the qualified column name.
        tables: the full names of the tables that have no alias.

    Returns:
        The table's full name, and the number of parts in the qualifier: 2 for `schema.table`, 3 for
        `catalog.schema.table`.
    """
    names = _lower_case(chain)
    for length in (3, 2):  # Spark prefers the longest qualifier
        for full_name in tables:
            if len(names) > length and names[:length] == full_name[-length:]:
                return full_name, length
    return None


def _is_field(chain: _Chain, length: int, columns: set[str]) -> bool:
    """Whether a dotted name such as `a.b.c` is a field of the struct column `a`.

    Otherwise the name is the column `c` of the table `a.b`.

    Args:
        length: the number of parts in the table's name, such as 2 for `a.b`.
        columns: the column names, in lower case, of all tables in the statement.
    """
    names = _lower_case(chain)
    return names[0] in columns and names[length] not in columns and names[length] != "*"


def _has_other_meaning(
    tokens: Sequence[Token], starts: Any, tables: Mapping[int, FullName], full_name: FullName
) -> bool:
    """Whether a table's name without its schema may also name another table, alias or column.

    Args:
        starts: the character offsets of all table references.
        tables: the full names of the tables that have no alias, by character offset.
        full_name: the table's full name.
    """
    name = full_name[-1]
    if any(other[-1] == name and other != full_name for other in tables.values()):
        return True
    return any(chain[-1].text.lower() == name for chain in _chains(tokens, starts, 1))


def _has_subquery(tokens: Sequence[Token]) -> bool:
    return any(
        token.is_keyword("(") and after.is_keyword(*_QUERY) for token, after in pairwise(tokens)
    )


def _column_names(spark: Any, text: str) -> set[str]:
    """Return the column names, in lower case, of all tables that an SQL text contains."""
    names: set[str] = set()
    for table in table_candidates(text):
        with suppress(Exception):  # not a table, or the statement reports the error
            frame = (
                spark.read.format("delta").load(table[1])
                if is_path_name(table)
                else spark.table(quoted_table_name(table))
            )
            names.update(column.lower() for column in frame.columns)
    return names


def _chains(tokens: Sequence[Token], starts: Any, at_least: int) -> Iterator[_Chain]:
    """Yield the dotted names with at least `at_least` parts.

    Args:
        starts: the character offsets of the names to omit.
    """
    number = 0
    while number < len(tokens):
        chain = _chain_at(tokens, number)
        if len(chain) >= at_least and tokens[number].start not in starts:
            yield chain
        number += max(2 * len(chain) - 1, 1)


def _chain_at(tokens: Sequence[Token], first: int) -> _Chain:
    """Return the parts of the dotted name that starts at a token; empty if no name starts there."""
    if not tokens[first].is_name or (first > 0 and tokens[first - 1].is_keyword(".")):
        return []
    last = first
    while last + 2 < len(tokens) and tokens[last + 1].is_keyword("."):
        if not (tokens[last + 2].is_name or tokens[last + 2].is_keyword("*")):
            break
        last += 2
    return tokens[first : last + 1 : 2]


def _lower_case(chain: _Chain) -> tuple[str, ...]:
    return tuple(token.text.lower() for token in chain)


def _edited(text: str, edits: Sequence[_Edit], escape: Callable[[str], str] = str) -> str:
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += [escape(text[at : edit.start]), edit.text]
        at = edit.end
    parts.append(escape(text[at:]))
    return "".join(parts)
