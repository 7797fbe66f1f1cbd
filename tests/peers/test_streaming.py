"""A streaming query moves between delta-spark and Bayou with its checkpoint, at any batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.errors import StreamingQueryException

import bayou
from bayou.spark import start_session

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    session = start_session("bayou", conf, master="local[2]", time_zone="UTC")
    yield session
    session.stop()


def stream_here(
    spark: Any,
    table: Path,
    checkpoint: Path,
    out: Path,
    options: Mapping[str, str],
    fail_at: int | None = None,
) -> None:
    """What `DeltaSpark.stream` does, by Bayou."""

    def batch(rows: Any, number: int) -> None:
        if number == fail_at:
            raise RuntimeError("the sink stops here, on purpose")
        rows.write.mode("overwrite").parquet(f"{out}/batch={number}")

    reader = spark.readStream.format("delta").options(**options)
    query = (
        reader.load(str(table))
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(120)
    except StreamingQueryException as error:
        if "on purpose" not in str(error):
            raise


def append(table: Path, first: int, files: int) -> None:
    """A commit of files of one row."""
    for number in range(first, first + files):
        bayou.write(str(table), pa.table({"id": [number]}), mode="append")


def ids(out: Path) -> list[int]:
    """The rows of all batches in the order of the batches."""
    found = []
    for folder in sorted(out.glob("batch=*"), key=lambda f: int(f.name[6:])):
        found += sorted(ds.dataset(folder, format="parquet").to_table().column("id").to_pylist())
    return found


def offsets(checkpoint: Path) -> list[str]:
    """The offset log's lines, as they stand."""
    files = sorted(checkpoint.glob("offsets/[0-9]*"), key=lambda f: int(f.name))
    return [f.read_text().split("\n")[2] for f in files]


@pytest.mark.parametrize("there_first", [True, False])
@pytest.mark.parametrize("feed", [False, True])
def test_a_query_moves_in_the_middle_of_the_snapshot_and_of_the_tail(
    delta_spark: DeltaSpark, spark: Any, tmp_path: Path, there_first: bool, feed: bool
) -> None:
    table, checkpoint, out = (tmp_path / name for name in ("t", "checkpoint", "out"))
    delta_spark.sql(
        f"CREATE TABLE delta.`{table}` (id BIGINT) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    append(table, 0, 7)
    options = {"maxFilesPerTrigger": "2", "readChangeFeed": str(feed).lower()}

    def here(fail_at: int | None = None) -> None:
        stream_here(spark, table, checkpoint, out, options, fail_at)

    def there(fail_at: int | None = None) -> None:
        delta_spark.stream(table, checkpoint, out, options, fail_at)

    one, other = (there, here) if there_first else (here, there)
    one(fail_at=2)  # in the middle of the snapshot, its last batch planned and not read
    other(fail_at=3)
    append(table, 7, 6)
    one(fail_at=5)  # in the middle of the tail
    other()
    assert sorted(ids(out)) == list(range(13))
    assert all(
        text == json.dumps(json.loads(text), separators=(",", ":")) for text in offsets(checkpoint)
    )
    before = offsets(checkpoint)
    one()
    other()
    assert offsets(checkpoint) == before  # nothing new is no batch, on either side


@pytest.mark.parametrize("there_first", [True, False])
def test_a_query_moves_with_its_schema_log(
    delta_spark: DeltaSpark, spark: Any, tmp_path: Path, there_first: bool
) -> None:
    table, checkpoint, out = (tmp_path / name for name in ("t", "checkpoint", "out"))
    delta_spark.sql(
        f"CREATE TABLE delta.`{table}` (id BIGINT, v STRING) USING delta "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name')"
    )
    delta_spark.sql(f"INSERT INTO delta.`{table}` VALUES (1, 'a')")
    options = {"schemaTrackingLocation": str(checkpoint / "schemas")}
    there = (delta_spark.stream, AssertionError)
    here = (lambda *arguments: stream_here(spark, *arguments), StreamingQueryException)
    (one, one_fails), (other, other_fails) = (there, here) if there_first else (here, there)
    one(table, checkpoint, out, options)
    delta_spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN v TO w")
    delta_spark.sql(f"INSERT INTO delta.`{table}` VALUES (2, 'b')")
    with pytest.raises(one_fails, match="DELTA_STREAMING_METADATA_EVOLUTION"):
        one(table, checkpoint, out, options)
    with pytest.raises(
        other_fails, match="DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
    ):
        other(table, checkpoint, out, options)
    allowed = {**options, "allowSourceColumnRename": "always"}
    other(table, checkpoint, out, allowed)
    delta_spark.sql(f"INSERT INTO delta.`{table}` VALUES (3, 'c')")
    one(table, checkpoint, out, allowed)
    assert ids(out) == [1, 2, 3]
    last = max(out.glob("batch=*"), key=lambda f: int(f.name[6:]))
    assert ds.dataset(last, format="parquet").to_table().column_names == ["id", "w"]
