"""Append rows, and write a checkpoint when one is due.

usage: checkpoint_after_commit.py TABLE COMMITS

The commit is valid whether or not its post-commit hooks run: a connector may run them at once,
later, or in another process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pyarrow as pa

from bayou.engines import for_path
from bayou.kernel import (
    Engine,
    Operation,
    Table,
    TransactionCommitResult,
    write_data,
)

ENGINE_INFO = "example connector/1.0"


def append(engine: Engine, table: Table, rows: pa.RecordBatch) -> TransactionCommitResult:
    """Append rows."""
    snapshot = table.latest_snapshot(engine)
    transaction = snapshot.build_update_table_transaction(ENGINE_INFO, Operation.WRITE).build(
        engine
    )
    adds = write_data(engine, transaction.transaction_state(engine), [rows])
    return transaction.commit(engine, adds)


def main(arguments: Sequence[str]) -> None:
    """Append several times; print the versions that got a checkpoint."""
    path, commits = arguments
    engine = for_path(path)
    table = Table.for_path(engine, path)
    for i in range(int(commits)):
        result = append(engine, table, pa.record_batch({"id": [i]}))
        if result.is_ready_for_checkpoint:
            table.checkpoint(engine, result.version)
            print(f"checkpoint of version {result.version}")
        for hook in result.post_commit_hooks:
            if hook.name != "checkpoint":
                hook.run(engine)  # version checksum, log cleanup
    print(f"version {table.latest_snapshot(engine).version}")


if __name__ == "__main__":
    main(sys.argv[1:])
