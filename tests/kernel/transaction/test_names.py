"""The names by which connectors write: each is there, and says what it does."""

from __future__ import annotations

import inspect

import pytest

from bayou.kernel import (
    Snapshot,
    Table,
    Transaction,
    TransactionBuilder,
    TransactionCommitResult,
    TransactionMetrics,
    TransactionReport,
    TransactionState,
    WriteContext,
)

NAMES = {
    Table: ["for_path", "create_transaction_builder", "checkpoint", "latest_snapshot"],
    Snapshot: ["build_update_table_transaction"],
    TransactionBuilder: [
        "with_schema",
        "with_partition_columns",
        "with_clustering_columns",
        "with_transaction_id",
        "with_table_properties",
        "with_table_properties_removed",
        "with_max_retries",
        "with_domain_metadata",
        "with_domain_metadata_removed",
        "with_schema_evolution",
        "with_log_compaction_interval",
        "build",
    ],
    Transaction: [
        "transaction_state",
        "transform_logical_data",
        "get_write_context",
        "generate_append_actions",
        "commit",
    ],
    TransactionState: ["to_bytes", "from_bytes", "for_writer"],
    TransactionCommitResult: ["is_ready_for_checkpoint", "run_post_commit_hooks"],
}


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, names in NAMES.items() for n in names])
def test_a_name_of_the_write_path_is_there_and_documented(kind: type, name: str) -> None:
    text = inspect.getdoc(inspect.getattr_static(kind, name))
    assert text
    assert text.split("\n", 1)[0].endswith((".", ":", ";"))


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        (TransactionCommitResult, ["version", "already_committed", "post_commit_hooks", "metrics"]),
        (WriteContext, ["target_directory", "statistics_columns", "partition_values", "options"]),
        (TransactionMetrics, ["attempts", "files_added", "bytes_added"]),
        (TransactionReport, ["table", "operation", "version", "metrics", "error"]),
    ],
)
def test_what_a_commit_gives_says_what_its_attributes_are(
    kind: type, attributes: list[str]
) -> None:
    text = inspect.getdoc(kind) or ""
    assert all(name in kind.__slots__ and name in text for name in attributes)
