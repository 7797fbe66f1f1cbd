"""Features dropped: traces gone, protocol lowered, rows as they were, older versions safe."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest

import bayou
from bayou.errors import (
    FeatureInUseError,
    MetadataChangedError,
    SchemaError,
    UnsupportedFeatureError,
)
from bayou.kernel.commands.alter.drop_feature import drop_feature
from bayou.kernel.commands.alter.feature_removal import REMOVALS, FeatureDrop

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "p": ["a", "b", "a"],
        "s": [{"a": 1}, {"a": 2}, None],
    }
)
LATER = 25 * 3_600_000
VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def path() -> str:
    return f"memory://{uuid.uuid4().hex}/table"


def make(path: str, properties: dict[str, str], partition_by=None):
    bayou.write(path, ROWS, configuration=properties, partition_by=partition_by)
    return bayou.table(path)


def rows(table, names=("id", "p", "s")) -> list[dict]:
    return sorted(table.to_arrow(list(names)).to_pylist(), key=repr)


def operations(table) -> list[str]:
    return [entry["operation"] for entry in reversed(table.history())]


def versions(table) -> tuple[int, int]:
    protocol = table.snapshot().protocol
    return protocol.min_reader_version, protocol.min_writer_version


BARRIERS = ["Empty Commit"] * 3 + ["DROP FEATURE"]


def test_deletion_vectors_are_purged(path):
    table = make(path, {"delta.enableDeletionVectors": "true"})
    table.delete("id = 2")
    version = table.alter.drop_feature("deletionVectors")
    assert operations(table) == [
        "WRITE",
        "DELETE",
        "UNSET TBLPROPERTIES",
        "REORG",
        "Deletion Vector Tombstones",
        *BARRIERS,
    ]
    assert [row["id"] for row in rows(table)] == [1, 3]
    assert versions(table) == (1, 7)
    assert "checkpointProtection" in table.snapshot().protocol.writer_features
    assert table.snapshot().properties == {
        "delta.requireCheckpointProtectionBeforeVersion": str(version)
    }
    tombstones = table.history()[4]
    assert tombstones["isolationLevel"] == "SnapshotIsolation"
    assert [row["id"] for row in table.to_arrow(version=1).to_pylist()] == [1, 3]


def test_type_changes_are_written_into_the_files(path):
    table = make(path, {"delta.enableTypeWidening": "true"})
    table.alter.change_type("id", "bigint")
    bayou.write(path, ROWS.set_column(0, "id", pa.array([7, 8, 9])))
    table.alter.drop_feature("typeWidening")
    assert operations(table)[3:] == [
        "UNSET TBLPROPERTIES",
        "REORG",
        "DROP FEATURE",
        *BARRIERS,
    ]
    assert sorted(row["id"] for row in rows(table)) == [1, 2, 3, 7, 8, 9]
    assert table.snapshot().schema.get("id").metadata == {}
    # Only the file with the narrower type was written anew.
    assert table.history()[-5]["operationMetrics"]["numRemovedFiles"] == "1"


def test_column_mapping_goes_with_all_physical_names(path):
    table = make(path, {"delta.columnMapping.mode": "name"}, ["p"])
    table.alter.rename_column("p", "q")
    table.alter.rename_column("id", "ID2")
    table.alter.drop_feature("columnMapping")
    assert operations(table)[3:] == ["REMOVE COLUMN MAPPING", *BARRIERS]
    assert rows(table, ("ID2", "q", "s")) == sorted(
        (dict(zip(("ID2", "q", "s"), row.values(), strict=True)) for row in ROWS.to_pylist()),
        key=repr,
    )
    assert table.to_arrow(filter="q = 'b'").num_rows == 1
    assert "delta.columnMapping.mode" not in table.snapshot().properties
    assert "columnMapping" not in table.snapshot().kernel.metadata.schema_string
    bayou.write(path, pa.table({"ID2": pa.array([4], pa.int32()), "q": ["b"]}))
    assert table.to_arrow(filter="q = 'b'").num_rows == 2


def test_a_name_that_needs_column_mapping_keeps_it(path):
    table = make(path, {"delta.columnMapping.mode": "name"})
    table.alter.rename_column("id", "the id")
    with pytest.raises(SchemaError, match="the id"):
        table.alter.drop_feature("columnMapping")
    assert operations(table) == ["WRITE", "RENAME COLUMN"]


def test_row_tracking_goes_with_its_ids(path):
    table = make(path, {"delta.enableRowTracking": "true"})
    table.alter.drop_feature("rowTracking")
    assert operations(table)[1:] == [
        "SET TBLPROPERTIES",
        "ROW TRACKING UNBACKFILL",
        "DROP FEATURE",
    ]
    assert table.snapshot().properties == {}
    assert table.snapshot().kernel.domain_metadata == {}
    bayou.write(path, ROWS)
    assert table.alter.drop_feature("domainMetadata") == 5
    assert versions(table) == (1, 2)
    table.alter.set_table_properties({"delta.enableRowTracking": "true"})
    assert table.to_arrow(["_metadata.row_id"]).num_rows == 6


def test_files_of_a_table_whose_row_tracking_is_suspended_have_no_ids(path):
    table = make(path, {"delta.enableRowTracking": "true"})
    table.alter.set_table_properties(
        {"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"}
    )
    bayou.write(path, ROWS)
    state = table.snapshot().kernel
    with state.scan_builder().build().scan_files(table._engine) as batches:
        ids = [file.add.base_row_id for batch in batches for file in batch.rows()]
    assert sorted(ids, key=repr) == [0, None]


def test_in_commit_timestamps_stop(path):
    table = make(path, {})
    table.alter.set_table_properties({"delta.enableInCommitTimestamps": "true"})
    table.alter.drop_feature("inCommitTimestamp")
    assert operations(table)[2:] == ["UNSET TBLPROPERTIES", "DROP FEATURE"]
    assert table.snapshot().properties == {"delta.enableInCommitTimestamps": "false"}
    assert "inCommitTimestamp" not in table.history(1)[0]


def test_checkpoints_become_classic(path):
    table = make(path, {"delta.checkpointPolicy": "v2"})
    table.create_checkpoint()
    table.alter.drop_feature("v2Checkpoint")
    assert operations(table)[1:] == ["SET TBLPROPERTIES", *BARRIERS]
    assert rows(table) == sorted(ROWS.to_pylist(), key=repr)


def test_constraints_keep_their_feature(path):
    table = make(path, {})
    table.alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(FeatureInUseError, match="positive") as caught:
        table.alter.drop_feature("checkConstraints")
    assert caught.value.feature == "checkConstraints"
    table.alter.drop_constraint("positive")
    table.alter.drop_feature("checkConstraints")
    assert versions(table) == (1, 2)


def test_an_append_before_the_last_commit_is_looked_at_too(path, monkeypatch):
    table = make(path, VECTORS)
    removal = REMOVALS["deletionVectors"]
    looks: list[int] = []

    def look(dropping: FeatureDrop) -> bool:
        found = removal.is_clean(dropping)
        if not looks:
            bayou.write(path, ROWS)
        looks.append(dropping.state.version)
        return found

    monkeypatch.setitem(REMOVALS, "deletionVectors", replace(removal, is_clean=look))
    table.alter.drop_feature("deletionVectors")
    assert len(looks) == 2
    assert looks[1] == looks[0] + 1
    assert operations(table)[-2:] == ["WRITE", "DROP FEATURE"]
    protected = table.snapshot().properties["delta.requireCheckpointProtectionBeforeVersion"]
    assert int(protected) == table.snapshot().version


def test_a_trace_before_the_last_commit_keeps_the_feature(path, monkeypatch):
    table = make(path, VECTORS)
    removal = REMOVALS["deletionVectors"]
    looks: list[int] = []

    def look(dropping: FeatureDrop) -> bool:
        found = removal.is_clean(dropping)
        if not looks:
            bayou.table(path).alter.set_table_properties(VECTORS)
        looks.append(dropping.state.version)
        return found

    monkeypatch.setitem(REMOVALS, "deletionVectors", replace(removal, is_clean=look))
    with pytest.raises(MetadataChangedError):
        table.alter.drop_feature("deletionVectors")
    assert "deletionVectors" in table.snapshot().protocol.writer_features


def test_what_cannot_be_dropped_says_why(path):
    table = make(path, {"delta.enableRowTracking": "true"})
    with pytest.raises(UnsupportedFeatureError, match="doesn't have"):
        table.alter.drop_feature("deletionVectors")
    with pytest.raises(UnsupportedFeatureError, match="can't be dropped"):
        table.alter.drop_feature("appendOnly")
    with pytest.raises(FeatureInUseError, match="rowTracking, which requires this feature"):
        table.alter.drop_feature("domainMetadata")
    with pytest.raises(FeatureInUseError, match="doesn't require truncating"):
        table.alter.drop_feature("rowTracking", truncate_history=True)
    assert operations(table) == ["WRITE"]


def test_with_its_history_truncated_a_feature_goes_in_two_calls(path):
    table = make(path, {"delta.enableDeletionVectors": "true"})
    table.delete("id = 2")
    with pytest.raises(FeatureInUseError, match="24 hours"):
        table.alter.drop_feature("deletionVectors", truncate_history=True)
    with pytest.raises(FeatureInUseError, match="version 0 still uses the feature"):
        table.alter.drop_feature("deletionVectors", truncate_history=True)
    drop_feature(
        table._engine,
        table.snapshot().kernel,
        "deletionVectors",
        truncate_history=True,
        engine_info="test/1",
        now=time.time_ns() // 1_000_000 + LATER,
    )
    assert versions(table) == (1, 2)
    assert [row["id"] for row in rows(table)] == [1, 3]
    assert operations(table)[-1] == "DROP FEATURE"
    assert "DELETE" not in operations(table)


def test_the_protection_of_checkpoints_goes_once_what_it_protects_is_gone(path):
    table = make(path, {"delta.feature.vacuumProtocolCheck": "supported"})
    version = table.alter.drop_feature("vacuumProtocolCheck")
    assert version == 4
    with pytest.raises(FeatureInUseError, match="truncate_history=True"):
        table.alter.drop_feature("checkpointProtection")
    with pytest.raises(FeatureInUseError, match="versions 0 to 3"):
        table.alter.drop_feature("checkpointProtection", truncate_history=True)
    drop_feature(
        table._engine,
        table.snapshot().kernel,
        "checkpointProtection",
        truncate_history=True,
        engine_info="test/1",
        now=time.time_ns() // 1_000_000 + LATER,
    )
    assert versions(table) == (1, 2)
    assert table.snapshot().properties == {}
    assert rows(table) == sorted(ROWS.to_pylist(), key=repr)
