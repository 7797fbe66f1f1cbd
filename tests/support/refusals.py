"""A table with constraints of all kinds, and a check that a refused write changes nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import BayouError
from bayou.kernel import Operation, Table
from bayou.protocol.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

__all__ = ["good", "make_table", "refused", "tree"]

NESTED = StructType(
    (
        StructField(name="strict", data_type=LONG, nullable=False),
        StructField(name="free", data_type=STRING),
    )
)
RULES = StructType(
    (
        StructField(name="id", data_type=LONG, nullable=False),
        StructField(name="part", data_type=STRING),
        StructField(name="day", data_type=DATE),
        StructField(name="amount", data_type=DecimalType(5, 2)),
        StructField(name="rate", data_type=DOUBLE),
        StructField(name="at", data_type=TIMESTAMP),
        StructField(
            name="code", data_type=STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
        ),
        StructField(
            name="twice", data_type=LONG, metadata={"delta.generationExpression": "id * 2"}
        ),
        StructField(
            name="age",
            data_type=INTEGER,
            metadata={"delta.invariants": '{"expression": {"expression": "age < 150"}}'},
        ),
        StructField(name="s", data_type=NESTED),
        StructField(name="list", data_type=ArrayType(element_type=NESTED, contains_null=True)),
        StructField(
            name="map",
            data_type=MapType(key_type=STRING, value_type=LONG, value_contains_null=False),
        ),
    )
)
"""The schema of a table with constraints of all kinds, partitioned by `part`."""


def make_table(path: str) -> None:
    """Create the table, with one valid row."""
    engine = for_path(path)
    (
        Table.for_path(engine, path)
        .create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
        .with_schema(RULES)
        .with_partition_columns(["part"])
        .with_table_properties({"delta.constraints.positive": "id > 0"})
        .build(engine)
        .commit(engine, [])
    )
    bayou.write(path, good())


def good(**changed: Any) -> pa.Table:
    """Return a valid row; `changed` replaces columns, or omits them if the value is None."""
    columns: dict[str, Any] = {
        "id": pa.array([1]),
        "part": pa.array(["a"]),
        "day": pa.array([dt.date(2024, 1, 5)]),
        "amount": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "rate": pa.array([0.5]),
        "at": pa.array([dt.datetime(2024, 1, 5, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
        "code": pa.array(["abc"]),
        "twice": pa.array([2]),
        "age": pa.array([40], pa.int32()),
        "s": pa.array([{"strict": 1, "free": "x"}]),
        "list": pa.array([[{"strict": 1, "free": "x"}]]),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    columns |= changed
    return pa.table({name: column for name, column in columns.items() if column is not None})


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all files (with their bytes) and folders (with None) in a folder, by relative path."""
    return {
        str(found.relative_to(folder)): found.read_bytes() if found.is_file() else None
        for found in folder.rglob("*")
    }


def refused(
    folder: Path,
    action: Callable[[], object],
    error: type[BayouError],
    words: tuple[str, ...],
) -> BayouError:
    """Assert that an action raises an error and changes no file; return the error.

    Args:
        folder: the folder that must not change.
        action: the action.
        error: the type of the error.
        words: strings that the message must contain.
    """
    before = tree(folder)
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert message.endswith((".", "?"))
    assert "<class" not in message
    assert tree(folder) == before
    return caught.value
