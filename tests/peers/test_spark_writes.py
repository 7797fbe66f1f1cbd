"""Programs that write through Spark, run by delta-spark and by Bayou: the same tables come of them.

The programs don't differ by a letter. What is compared: rows, columns, partition columns,
properties, and the history with operations, parameters and metrics.
"""

from __future__ import annotations

import textwrap

import pytest

import bayou
from bayou.spark import start_session

ROWS = "rows = spark.range(0, 12, 1, 2).selectExpr('id', 'cast(id % 3 as string) p', 'id * 1.5D x')"
WRITE = "def write(rows, **o): return rows.write.format('delta').options(**o)"
FIRST = "write(rows).partitionBy('p').save(path)"

PROGRAMS = {
    "modes": """
        write(rows).save(path)
        write(rows).mode('append').save(path)
        write(rows).mode('ignore').save(path)
        write(rows.limit(1)).mode('overwrite').save(path)
        try:
            write(rows).save(path)
        except Exception:
            pass
        else:
            raise AssertionError('error mode overwrote')
    """,
    "ignore makes a table": "write(rows).mode('ignore').partitionBy('p').save(path)",
    "partitions": FIRST
    + """
        write(rows).mode('append').save(path)
        write(rows).mode('append').partitionBy('p').save(path)
    """,
    "partition columns in another case": """
        write(rows).partitionBy('P').save(path)
    """,
    "other partitioning": FIRST
    + """
        try:
            write(rows).mode('append').partitionBy('id').save(path)
        except Exception:
            pass
        else:
            raise AssertionError('partitioned anew')
    """,
    "replaceWhere on partitions": FIRST
    + """
        new = spark.sql("select 100L id, '1' p, 1D x")
        write(new, replaceWhere="p = '1'").mode('overwrite').save(path)
    """,
    "replaceWhere refuses other rows": FIRST
    + """
        new = spark.sql("select 100L id, '2' p, 1D x")
        try:
            write(new, replaceWhere="p = '1'").mode('overwrite').save(path)
        except Exception:
            pass
        else:
            raise AssertionError('took another row')
    """,
    "replaceWhere on data": """
        write(rows.coalesce(1)).save(path)
        new = spark.sql("select 11L id, 'n' p, 1D x union all select 13L, 'n', 2D").coalesce(1)
        write(new, replaceWhere="id >= 10").mode('overwrite').save(path)
    """,
    "replaceWhere on data with vectors": """
        write(rows.coalesce(1), **{'delta.enableDeletionVectors': 'true'}).save(path)
        new = spark.sql("select 11L id, 'n' p, 1D x").coalesce(1)
        write(new, replaceWhere="id >= 10").mode('overwrite').save(path)
    """,
    "replaceWhere by nothing": FIRST
    + """
        write(rows.limit(0), replaceWhere="p = '1'").mode('overwrite').save(path)
    """,
    "dynamic overwrite": FIRST
    + """
        new = spark.sql("select 100L id, '1' p, 1D x union all select 101L, 'new', 2D").coalesce(1)
        write(new, partitionOverwriteMode='dynamic').mode('overwrite').save(path)
    """,
    "mergeSchema": """
        write(rows).save(path)
        new = spark.sql("select 100L id, 7 extra, named_struct('a', 1) s")
        write(new, mergeSchema='true').mode('append').save(path)
        new = spark.sql("select 101L id, named_struct('a', 2, 'b', 'x') s")
        write(new, mergeSchema='true').mode('append').save(path)
    """,
    "overwriteSchema": FIRST
    + """
        new = spark.sql("select 'a' id, 1 q")
        write(new, overwriteSchema='true').mode('overwrite').partitionBy('q').save(path)
        write(new, overwriteSchema='true').mode('overwrite').save(path)
    """,
    "overwriteSchema with column mapping": """
        write(rows, **{'delta.columnMapping.mode': 'name'}).partitionBy('p').save(path)
        new = spark.sql("select 'a' id, 1 `a b`")
        write(new, overwriteSchema='true').mode('overwrite').save(path)
    """,
    "idempotent writes and user metadata": """
        for version in ('1', '1', '2'):
            options = {'txnAppId': 'job', 'txnVersion': version, 'userMetadata': 'why'}
            write(rows.limit(2).coalesce(1), **options).mode('append').save(path)
    """,
    "records per file": """
        write(rows.coalesce(1), maxRecordsPerFile='5').save(path)
    """,
    "rows laid out anew": FIRST
    + """
        again = spark.read.format('delta').load(path).coalesce(1)
        write(again, dataChange='false').mode('overwrite').save(path)
    """,
    "nothing": """
        write(rows.limit(0)).save(path)
        write(rows.limit(0)).mode('append').save(path)
        write(rows.limit(0)).mode('overwrite').save(path)
        write(rows).mode('append').save(path)
        write(rows.limit(0)).mode('overwrite').save(path)
    """,
    "another type is not cast": """
        write(rows).save(path)
        try:
            write(spark.sql("select 1 id")).mode('append').save(path)
        except Exception:
            pass
        else:
            raise AssertionError('cast')
    """,
    "names in another case": """
        write(rows).save(path)
        write(spark.sql("select 1L ID, 'z' P")).mode('append').save(path)
    """,
    "properties": """
        keep = {'delta.deletedFileRetentionDuration': 'interval 2 days'}
        write(rows, **{'delta.appendOnly': 'true'}, **keep).save(path)
        write(rows, **{'delta.appendOnly': 'false'}).mode('append').save(path)
    """,
    "a stream, restarted": """
        rows.write.json(path + '-in')
        for _ in range(2):
            stream = spark.readStream.schema('id long, p string, x double').json(path + '-in')
            query = (stream.writeStream.format('delta').partitionBy('p')
                     .option('checkpointLocation', path + '-checkpoint')
                     .trigger(availableNow=True).start(path))
            query.awaitTermination()
            rows.write.mode('append').json(path + '-in')
    """,
    "a complete stream": """
        rows.write.json(path + '-in')
        stream = spark.readStream.schema('id long, p string, x double').json(path + '-in')
        query = (stream.groupBy('p').count().writeStream.format('delta').outputMode('complete')
                 .option('checkpointLocation', path + '-checkpoint')
                 .trigger(availableNow=True).start(path))
        query.awaitTermination()
    """,
    "foreachBatch": """
        rows.coalesce(1).write.json(path + '-in')
        def batch(df, number):
            options = {'txnAppId': 'query', 'txnVersion': str(number)}
            for _ in range(2):
                write(df, **options).mode('append').save(path)
        stream = spark.readStream.schema('id long, p string, x double').json(path + '-in')
        query = (stream.writeStream.foreachBatch(batch)
                 .option('checkpointLocation', path + '-checkpoint')
                 .trigger(availableNow=True).start())
        query.awaitTermination()
    """,
}

_OF_FILES = {"numFiles", "numAddedFiles", "numRemovedFiles"}
"""Where nothing is written delta-spark makes a file without rows, and removes it later; Bayou none.
"""
_UNEQUAL = {"numOutputBytes", "numRemovedBytes", "executionTimeMs", "scanTimeMs", "rewriteTimeMs"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    session = start_session(
        "bayou-writes",
        {
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
        master="local[2]",
        time_zone="UTC",
    )
    yield session
    session.stop()


def comparable(path: str, unequal: frozenset[str]) -> dict[str, object]:
    table = bayou.table(path)
    snapshot = table.snapshot()
    rows = table.to_arrow().to_pylist()
    history = [
        {
            "operation": h["operation"],
            "parameters": {k: v for k, v in h["operationParameters"].items() if k != "queryId"},
            "metrics": {k: v for k, v in h["operationMetrics"].items() if k not in unequal},
            "counted": sorted(h["operationMetrics"]),
            "userMetadata": h.get("userMetadata"),
            # Before a table's first version there is nothing that could be read.
            "blind": h["version"] == 0 or h["isBlindAppend"],
        }
        for h in reversed(table.history())
    ]
    return {
        "rows": sorted(map(repr, rows)),
        "schema": [(f.name, str(f.data_type), f.nullable) for f in snapshot.schema],
        "partitions": snapshot.partition_columns,
        "properties": {k: v for k, v in snapshot.properties.items() if "maxColumnId" not in k},
        "protocol": (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version),
        "history": history,
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_written_for_delta_spark_does_the_same(spark, delta_spark, tmp_path, name):
    program = "\n".join([ROWS, WRITE, *_lines(PROGRAMS[name])])
    delta_spark.run(program, tmp_path / "theirs")
    exec(program, {"spark": spark, "path": str(tmp_path / "ours")})
    unequal = frozenset(_UNEQUAL | (_OF_FILES if name == "nothing" else set()))
    theirs, ours = (comparable(str(tmp_path / side), unequal) for side in ("theirs", "ours"))
    assert ours["history"] == theirs["history"]
    assert ours == theirs
    read = delta_spark.read(tmp_path / "ours")
    assert sorted(map(repr, read.to_pylist())) == ours["rows"]


def _lines(program: str) -> list[str]:
    """A first line without indentation, and a block with it."""
    first, _, rest = program.partition("\n")
    return [first.strip(), textwrap.dedent(rest)]
