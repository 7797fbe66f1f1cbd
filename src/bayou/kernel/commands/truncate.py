"""TRUNCATE TABLE: remove every file, and keep schema and properties."""

from __future__ import annotations

import time

from bayou.kernel.engine import Engine
from bayou.kernel.operation import Operation
from bayou.kernel.snapshot import Snapshot


def truncate(
    engine: Engine, snapshot: Snapshot, *, engine_info: str, user_metadata: str | None = None
) -> int:
    """Remove all rows and return the new version; older versions stay readable."""
    started = time.perf_counter()
    transaction = (
        snapshot.build_update_table_transaction(engine_info, Operation.TRUNCATE)
        .with_user_metadata(user_metadata)
        .build(engine)
    )
    transaction.check_rows_may_be_removed()
    removes = list(transaction.generate_remove_actions(engine))
    metrics = {
        "numRemovedFiles": len(removes),
        "executionTimeMs": round((time.perf_counter() - started) * 1000),
    }
    result = transaction.commit(engine, removes, operation_metrics=metrics)
    result.run_post_commit_hooks(engine)
    return result.version
