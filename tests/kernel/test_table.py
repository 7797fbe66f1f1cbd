"""A table by its path."""

from __future__ import annotations

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.errors import TableNotFoundError, VersionNotFoundError
from bayou.kernel import Operation, Table
from bayou.protocol.schema import LONG, StructField, StructType
from support.log_writer import LogWriter, add, metadata, protocol

HEAD = (protocol(), metadata({"id": "long"}))


def test_a_path_without_a_log_is_a_table_to_be(engine, table_path):
    table = Table.for_path(engine, f"{table_path}/")
    assert table.path == table_path
    assert not table.exists(engine)
    with pytest.raises(TableNotFoundError) as caught:
        table.latest_snapshot(engine)
    assert caught.value.table == table_path


def test_a_log_makes_a_table(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    table = Table.for_path(log.engine, log.table)
    assert table.exists(log.engine)
    assert table.latest_snapshot(log.engine).version == 1
    assert table.snapshot_as_of_version(log.engine, 0).version == 0
    assert [entry["version"] for entry in table.history(log.engine)] == [1, 0]
    with pytest.raises(VersionNotFoundError):
        table.snapshot_as_of_version(log.engine, 2)


def test_a_table_keeps_no_state_of_its_own(log):
    log.commit(*HEAD)
    table = Table.for_path(log.engine, log.table)
    assert table.latest_snapshot(log.engine).version == 0
    log.commit(add("a"))
    assert table.latest_snapshot(log.engine).version == 1


def test_a_checkpoint_is_written_of_any_version(log):
    log.commit(*HEAD)
    log.commit(add("a"))
    table = Table.for_path(log.engine, log.table)
    assert table.checkpoint(log.engine, 0) == 0
    assert table.checkpoint(log.engine) == 1
    segment = table.latest_snapshot(log.engine).log_segment
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 1


def test_a_local_table_may_be_named_by_path_or_uri(tmp_path):
    engine = ArrowEngine()
    LogWriter(engine, str(tmp_path / "a b")).commit(*HEAD)
    for path in (f"{tmp_path}/a b", f"{tmp_path}/a b/", f"file://{tmp_path}/a b"):
        table = Table.for_path(engine, path)
        assert table.path == f"{tmp_path}/a b"
        assert table.exists(engine)


def test_a_transaction_builder_makes_the_table(engine, table_path):
    table = Table.for_path(engine, table_path)
    schema = StructType((StructField(name="id", data_type=LONG),))
    builder = table.create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
    result = builder.with_schema(schema).build(engine).commit(engine, [])
    assert result.version == 0
    assert table.latest_snapshot(engine).schema == schema
    assert table.history(engine)[0]["operation"] == "CREATE TABLE"
