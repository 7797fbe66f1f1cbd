"""Small transactions, and the actions of the commits that they write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bayou.kernel import ByteRange, Engine, Operation, Table, Transaction, write_data
from bayou.kernel.arrow.types import from_arrow_schema

ROWS = pa.table({"n": [1, 2, 3]})
"""The rows of `append`."""


def begin(engine: Engine, table: Table, properties: Mapping[str, str] | None = None) -> Transaction:
    """Begin a write to the table of `ROWS`, which the first commit creates."""
    builder = table.create_transaction_builder(engine, "test/1", Operation.WRITE)
    builder = builder.with_schema(from_arrow_schema(ROWS.schema))
    return builder.with_table_properties(properties or {}).build(engine)


def append(engine: Engine, transaction: Transaction) -> int:
    """Write `ROWS`, commit, and return the version."""
    adds = write_data(engine, transaction.transaction_state(engine), ROWS.to_batches())
    return transaction.commit(engine, adds).version


def commit_lines(engine: Engine, table: Table, version: int) -> list[dict[str, Any]]:
    """Return the lines of a commit file."""
    path = f"{table.path}/_delta_log/{version:020d}.json"
    (data,) = engine.files.read_files([ByteRange(path=path)])
    return [json.loads(line) for line in bytes(data).splitlines()]


def only_action(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the single action of a kind, such as `metaData`."""
    (action,) = [line[kind] for line in lines if kind in line]
    return action
