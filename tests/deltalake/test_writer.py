"""`write_deltalake`, `convert_to_deltalake` and `DeltaTable.create`."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    Schema,
    Transaction,
    WriterProperties,
    convert_to_deltalake,
    write_deltalake,
)
from bayou.deltalake.exceptions import DeltaError

ROWS = pa.table({"id": [1, 2], "s": ["a", "b"]})


def test_name_and_properties_are_those_of_a_new_table_only(tmp_path):
    path = tmp_path / "t"
    off = {"delta.appendOnly": "false", "delta.checkpointInterval": None}
    write_deltalake(path, ROWS, name="first", configuration=off)
    write_deltalake(
        path, ROWS, mode="append", name="second", configuration={"delta.appendOnly": "true"}
    )
    metadata = DeltaTable(path).metadata()
    assert (metadata.name, metadata.configuration) == ("first", {"delta.appendOnly": "false"})


@pytest.mark.parametrize("codec", ["SNAPPY", "gzip", "UNCOMPRESSED", "LZ4"])
def test_the_codec_applies_to_every_operation_that_writes(tmp_path, codec):
    properties = WriterProperties(compression=codec)
    write_deltalake(tmp_path / "t", ROWS, writer_properties=properties)
    table = DeltaTable(tmp_path / "t")
    table.update({"s": "'x'"}, predicate="id = 1", writer_properties=properties)
    write_deltalake(table, ROWS, mode="append", writer_properties=properties)
    table.optimize.compact(writer_properties=properties)
    table.merge(ROWS, "target.id = source.id", writer_properties=properties).when_matched_update(
        {"s": "source.s"}
    )
    codecs = {
        pq.read_metadata(file).row_group(0).column(0).compression
        for file in (tmp_path / "t").glob("*.parquet")
    }
    assert codecs == {codec.upper().replace("LZ4", "LZ4")}


def test_a_repeated_transaction_writes_nothing(tmp_path):
    run = CommitProperties(app_transactions=[Transaction("app", 3)])
    for _ in range(2):
        write_deltalake(tmp_path / "t", ROWS, mode="append", commit_properties=run)
    table = DeltaTable(tmp_path / "t")
    assert (table.version(), table.count(), table.transaction_version("app")) == (0, 2, 3)
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"compression": "FAST"},
        {"compression_level": 3},
    ],
)
def test_wrong_writer_properties_are_an_error(arguments):
    with pytest.raises(ValueError, match=r"compression(_level)?: .*\. "):
        WriterProperties(**arguments)


def test_a_table_is_a_path_or_a_deltatable():
    with pytest.raises(ValueError, match="table_or_uri: 1 isn't a table"):
        write_deltalake(1, ROWS)


def test_create_records_custom_metadata_and_refuses_an_existing_table(tmp_path):
    job = CommitProperties(custom_metadata={"job": "nightly"})
    schema = Schema([Field("id", "long", nullable=False, metadata={"unit": "m"})])
    table = DeltaTable.create(tmp_path / "t", schema, mode="append", commit_properties=job)
    assert table.history()[0]["job"] == "nightly"
    assert table.schema() == schema
    with pytest.raises(DeltaError, match="exists"):
        DeltaTable.create(tmp_path / "t", schema, mode="append")


def test_a_conversion_takes_hive_partitions_name_and_metadata(tmp_path):
    folder = tmp_path / "t" / "day=1"
    folder.mkdir(parents=True)
    pq.write_table(ROWS, folder / "a.parquet")
    partitions = Schema([Field("day", "integer")])
    with pytest.raises(ValueError, match="partition_strategy: the value is 'directory'"):
        convert_to_deltalake(tmp_path / "t", "error", partitions, "directory")
    convert_to_deltalake(
        tmp_path / "t",
        "error",
        partitions,
        "hive",
        name="visits",
        description="all",
        commit_properties=CommitProperties(custom_metadata={"job": 1}),
    )
    table = DeltaTable(tmp_path / "t")
    assert (table.metadata().name, table.metadata().description) == ("visits", "all")
    assert table.history()[0]["job"] == 1
    with pytest.raises(DeltaError, match="already a Delta table"):
        convert_to_deltalake(tmp_path / "t")
