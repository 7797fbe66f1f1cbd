"""Checks of the API's arguments; also `BoundTable`, the base class of table handles."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from bayou.errors import ArgumentError
from bayou.kernel import Engine, Table
from bayou.kernel.expressions.model import Expression

Number = TypeVar("Number", int, float)

CommitMetadata: TypeAlias = str | Mapping[str, object]
"""Entries to add to the `commitInfo` of a commit; `history` returns them. A string is the value of
the entry `userMetadata`, as in Spark. A dictionary maps the names of entries to JSON values."""


def checked_path(path: object) -> str:
    """Check a table's path and return it as a string."""
    string: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(string, str) or not string.strip():
        raise ArgumentError(
            f"path: {path!r} isn't a table path. Give a local path or a URI such as "
            "'s3://lake/events'.",
            argument="path",
        )
    return string


def check_encodable(value: str, argument: str) -> None:
    """Raise `ArgumentError` if a string can't be encoded as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"{argument}: character {error.start + 1} of a string is an unpaired surrogate, which "
            "UTF-8 can't encode. Remove the character.",
            argument=argument,
        ) from None


def checked_names(names: Sequence[str] | None, argument: str) -> tuple[str, ...] | None:
    """Check column names and return them as a tuple; return None if `names` is None."""
    if names is None:
        return None
    if isinstance(names, str):
        raise ArgumentError(
            f"{argument}: the value is the string {names!r}. Give a list of names, [{names!r}].",
            argument=argument,
        )
    if not isinstance(names, Iterable):
        raise ArgumentError(
            f"{argument}: {names!r} isn't a list of names. Give a list of strings.",
            argument=argument,
        )
    columns = tuple(names)
    for name in columns:
        if not isinstance(name, str):
            raise ArgumentError(
                f"{argument}: {name!r} isn't a column name. Give strings.", argument=argument
            )
        check_encodable(name, argument)
    return columns


def checked_string(value: str, argument: str) -> str:
    """Check that an argument is a string and return it."""
    unchecked: object = value
    if not isinstance(unchecked, str):
        raise ArgumentError(
            f"{argument}: {unchecked!r} isn't a string. Give a string.", argument=argument
        )
    check_encodable(value, argument)
    return value


_LARGEST = 1 << 63
"""Arrow and the log store whole numbers in 64 bits."""


def checked_number(
    value: Number | None, argument: str, noun: str, *, minimum: int = 0, whole: bool = True
) -> Number | None:
    """Check and return a numeric argument, which may be None.

    Args:
        argument: name of the argument, for the error.
        noun: description of a valid value, for the error, such as `a number of rows`.
        minimum: the lowest valid number.
        whole: whether the number must be an integer.
    """
    unchecked: object = value
    if unchecked is None:
        return None
    types = (int,) if whole else (int, float)
    is_number = type(unchecked) in types and unchecked >= minimum  # type: ignore[operator]
    if not is_number or (whole and unchecked >= _LARGEST):  # type: ignore[operator]
        raise ArgumentError(
            f"{argument}: {unchecked!r} isn't {noun}. Give {minimum} or more.", argument=argument
        )
    return value


def checked_version(value: object, argument: str) -> int:
    """Check that an argument is a table version and return it."""
    if type(value) is not int or value < 0:
        raise ArgumentError(
            f"{argument}: {value!r} isn't a table version. Give an integer of 0 or more.",
            argument=argument,
        )
    return value


def checked_strings(values: Mapping[str, str] | None, argument: str) -> Mapping[str, str]:
    """Check that a mapping has string keys and string values, and return it.

    None becomes an empty mapping. If `argument` is `storage_options`, the error message doesn't
    contain values, because they may be secrets.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ArgumentError(
            f"{argument}: the value is a {type(values).__name__}. Give a dictionary of strings.",
            argument=argument,
        )
    pairs: Iterable[tuple[object, object]] = values.items()
    for name, value in pairs:
        if isinstance(name, str) and isinstance(value, str):
            check_encodable(name, argument)
            check_encodable(value, argument)
            continue
        if not isinstance(name, str):
            problem = f"a name is a {type(name).__name__}"
            example = "{'name': 'value'}"
        elif argument == "storage_options" and not isinstance(value, bool):
            problem = f"the value of {name!r} is a {type(value).__name__}"
            example = "{'AWS_REGION': 'eu-west-1'}"
        else:
            problem = f"{name!r} is {value!r}"
            example = f"{{{name!r}: {_to_string(value)!r}}}"
        raise ArgumentError(
            f"{argument}: {problem}. Give names and values as strings, such as {example}.",
            argument=argument,
        )
    return values


def checked_json(values: object, argument: str) -> dict[str, Any]:
    """Check that a mapping has string keys and JSON values, and return a copy."""
    try:
        if isinstance(values, Mapping) and all(isinstance(name, str) for name in values):
            json.dumps(dict(values), allow_nan=False, ensure_ascii=False).encode()
            return dict(values)
        error = None
    except (TypeError, ValueError) as caught:
        error = caught
    raise ArgumentError(
        f"{argument}: {values!r} isn't a dictionary of JSON values. Give strings as keys, and "
        "strings, finite numbers, booleans, lists or dictionaries as values.",
        argument=argument,
    ) from error


def checked_values(values: object, argument: str) -> Mapping[str, Expression | str]:
    """Check and return the assignments of an UPDATE or MERGE clause: new values by column name."""
    if not isinstance(values, Mapping):
        raise ArgumentError(
            f"{argument}: {values!r} isn't a dictionary. Give column names and SQL strings.",
            argument=argument,
        )
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str | Expression):
            raise ArgumentError(
                f"{argument}: column {name!r} can't be set to {value!r}. Give the name as a "
                "string, and the value as an SQL string or an expression, such as "
                f"lit({value!r}) for a constant.",
                argument=argument,
            )
        for string in (name, value):
            if isinstance(string, str):
                check_encodable(string, argument)
    return values


def checked_commit_metadata(value: object) -> CommitMetadata | None:
    """Check commit metadata and return it; None is valid and means no metadata."""
    if isinstance(value, str):
        check_encodable(value, "commit_metadata")
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise ArgumentError(
            f"commit_metadata: the value is a {type(value).__name__}. Give a string, or a "
            "dictionary of JSON values.",
            argument="commit_metadata",
        )
    entries = checked_json(value, "commit_metadata")
    for key in entries:
        if key in _WRITTEN_BY_BAYOU:
            raise ArgumentError(
                f"commit_metadata: {key} is reserved for an entry that Bayou writes. Use another "
                "name.",
                argument="commit_metadata",
            )
    return entries


_WRITTEN_BY_BAYOU = frozenset(
    {
        "timestamp",
        "inCommitTimestamp",
        "operation",
        "operationParameters",
        "operationMetrics",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "engineInfo",
        "txnId",
        "tags",
        "version",
    }
)


def _to_string(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class BoundTable:
    """Base class of table handles: holds a table and the engine that accesses it."""

    __slots__ = ("_engine", "_table")

    def __init__(self, engine: Engine, table: Table) -> None:
        self._engine = engine
        self._table = table

    def __repr__(self) -> str:
        return f"bayou.table({self.table_uri!r})"

    @property
    def table_uri(self) -> str:
        """The table's fully qualified path or URI."""
        return self._table.path


def engine_and_table(handle: BoundTable) -> tuple[Engine, Table]:
    """Return the engine and the table of a handle."""
    return handle._engine, handle._table  # noqa: SLF001  # the class is above
