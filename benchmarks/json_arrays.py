"""Measures queries on a pipeline's table in S3, compared with queries on JSON arrays in S3.

usage: PYTHONPATH=tools json_arrays.py [--records N] [--runs N] [--query QUERY ...]
                                       [--plot FILE.svg]

An S3 server has the same records twice: in JSON files with arrays of 1,000 records, and in a table
that `bayou run` wrote from a Kafka broker with `cluster-by: [user_id]`, and `bayou optimize`
clustered. Both are read by Spark SQL after `bayou.spark.enable`, through `hadoop-aws`, which Spark
fetches: the arrays by Spark's JSON reader with a given schema. Each query runs in a session of its
own: its first run is cold, the others are warm. The arrays are in the order of the records, as a
consumer writes them; for the query of one day they are measured a second time in folders by day.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import measure
import plots
from kafka_records import JSON_SCHEMA, PARTITIONS, produce, values
from kafka_spark import SPARK_FIELDS
from rich.console import Console
from rich.table import Table as Grid

RECORDS = 5_000_000
A_FILE = 1_000
ARRAYS, BY_DAY, TABLE = "JSON arrays", "JSON arrays by day", "table"
BUCKET, TOPIC = "events", "events"
TARGET = 10
_FIELDS = ", ".join(field.split()[0] for field in SPARK_FIELDS.split(","))
_DAY = "event_time >= '2026-03-07' AND event_time < '2026-03-08'"
_OF_DAY = "SELECT country, count(*), round(sum(amount), 2) FROM events WHERE {} GROUP BY country"
QUERIES = {
    "count": "SELECT count(*) FROM events",
    "by type": "SELECT event_type, count(*), round(avg(amount), 2), max(event_time) FROM events "
    "GROUP BY event_type",
    "one user": f"SELECT {_FIELDS} FROM events WHERE user_id = 123",  # noqa: S608
    "one day": _OF_DAY.format(_DAY),
}
FOLDER_OF_DAY = _OF_DAY.format("day = 7")
"""The query of one day on arrays in folders by day."""

_WARM_SECONDS = 6.0
"""Runs within this time after the start of the first one aren't counted as warm."""

_S3 = "BENCHMARK_S3"
_CONFIGURATION = """\
connector:
  kafka: {{bootstrap-servers: "{servers}"}}
  state-path: "{folder}/state"
  spark: {{master: "local[2]"}}
  topics:
    events:
      kafka-topic: {topic}
      schema-file: schema.json
      destination:
        table-path: "s3a://{bucket}/table"
        cluster-by: [user_id]
      processing: {{batch-size: 500000}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of a query: of its first run in a session, and the median of later runs."""

    cold: float
    warm: float


def run(
    console: Console,
    runs: int,
    records: int = RECORDS,
    queries: Sequence[str] = tuple(QUERIES),
    plot: Path | None = None,
) -> None:
    """Write arrays and table, measure the queries, and print a table; `plot` is an SVG file."""
    from servers import KafkaServer, S3Server

    with tempfile.TemporaryDirectory() as name, S3Server(Path(name) / "s3") as s3:
        s3.create_bucket(BUCKET)
        with KafkaServer(Path(name) / "kafka") as broker:
            broker.create_topic(TOPIC, PARTITIONS)
            produce(broker.bootstrap_servers, TOPIC, records)
            _write_table(Path(name), broker.bootstrap_servers, s3.storage_options)
        arrays_bytes = _write_arrays(s3.storage_options, records)
        table_bytes, files = _table_size(s3.storage_options)
        statements = {
            (side, query): QUERIES[query] for query in queries for side in (ARRAYS, TABLE)
        }
        if "one day" in queries:
            statements[BY_DAY, "one day"] = FOLDER_OF_DAY
        measured = {}
        for (side, query), statement in statements.items():
            times = _measure(side, statement, s3.storage_options, runs)
            measured[side, query] = times
            console.print(f"{query}, {side}: cold {times.cold:.2f} s, warm {times.warm:.2f} s")
    title = f"Queries on {records:,} records in S3"
    console.print(_grid(title, measured))
    console.print(
        f"data files: arrays {arrays_bytes / 1e6:,.1f} MB, table {table_bytes / 1e6:,.1f} MB in "
        f"{files} files, {1 - table_bytes / arrays_bytes:.0%} less (target 50%)"
    )
    if plot is not None:
        warm = {side: [measured[side, q].warm for q in queries] for side in (ARRAYS, TABLE)}
        plots.bars(plot, title, list(queries), warm, "seconds")


def _grid(title: str, measured: Mapping[tuple[str, str], Times]) -> Grid:
    grid = Grid(title=f"{title}, s", title_justify="left")
    grid.add_column("")
    for heading in (ARRAYS, TABLE, "", "target", "cold: arrays", "table", ""):
        grid.add_column(heading, justify="right")
    for (side, query), peer in measured.items():
        if side == TABLE:
            continue
        table = measured[TABLE, query]
        grid.add_row(
            query if side == ARRAYS else f"{query}, arrays in folders by day",
            *(f"{peer.warm:.2f}", f"{table.warm:.2f}", f"{peer.warm / table.warm:.1f}x"),
            f"{TARGET}x" if side == ARRAYS else "",
            *(f"{peer.cold:.2f}", f"{table.cold:.2f}", f"{peer.cold / table.cold:.1f}x"),
        )
    return grid


def _write_table(folder: Path, servers: str, storage: Mapping[str, str]) -> None:
    file = folder / "pipeline.yaml"
    file.write_text(
        _CONFIGURATION.format(servers=servers, folder=folder, topic=TOPIC, bucket=BUCKET)
    )
    (folder / "schema.json").write_text(JSON_SCHEMA)
    _bayou(storage, "run", str(file), "--once", "--json")
    _bayou(storage, "optimize", TOPIC, "--config", str(file), "--json")


def _bayou(storage: Mapping[str, str], *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "bayou.cli", *arguments],
        env={**os.environ, **storage},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _write_arrays(storage: Mapping[str, str], count: int) -> int:
    """Write the records as arrays, in order and in folders by day; return the size of the first."""
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        endpoint=storage["AWS_ENDPOINT_URL"],
        region=storage["AWS_REGION"],
        access_key_id=storage["AWS_ACCESS_KEY_ID"],
        secret_access_key=storage["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )
    size = 0
    waiting: defaultdict[int, list[bytes]] = defaultdict(list)
    written: defaultdict[int, int] = defaultdict(int)

    def put_day(day: int, records: list[bytes]) -> None:
        written[day] += 1
        store.put(f"by-day/day={day:02}/batch_{written[day]:06}.json", _array(records))

    left = values(count)
    for number in range(-(-count // A_FILE)):
        records = list(islice(left, A_FILE))
        array = _array(records)
        size += len(array)
        store.put(f"arrays/batch_{number:06}.json", array)
        for record in records:
            found = re.search(rb'"event_time":"2026-03-(\d\d)', record)
            assert found is not None
            day = int(found[1])
            waiting[day].append(record)
            if len(waiting[day]) == A_FILE:
                put_day(day, waiting.pop(day))
    for day, rest in waiting.items():
        put_day(day, rest)
    return size


def _array(records: Iterable[bytes]) -> bytes:
    return b"[" + b",\n".join(records) + b"]"


def _table_size(storage: Mapping[str, str]) -> tuple[int, int]:
    import bayou

    detail = bayou.table(f"s3a://{BUCKET}/table", storage_options=dict(storage)).detail()
    return detail.size_in_bytes, detail.num_files


_rows: dict[str, Any] = {}
"""The result of each query, to verify that both sides return the same rows."""


def _measure(side: str, statement: str, storage: Mapping[str, str], runs: int) -> Times:
    done = subprocess.run(
        [sys.executable, __file__, "--measure", side, statement, str(runs)],
        env={**os.environ, _S3: json.dumps(storage)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{side}: {statement} failed:\n{done.stderr[-3000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    query = QUERIES["one day"] if side == BY_DAY else statement
    expected = _rows.setdefault(query, answer["rows"])
    assert answer["rows"] == expected, f"{side}: {statement} has other rows"
    return Times(cold=answer["seconds"][0], warm=median(answer["seconds"][-runs:]))


def measured(side: str, statement: str, runs: int) -> None:
    """Run a query on one side in this process; print its seconds and rows as JSON."""
    from bayou.spark import start_session

    storage = json.loads(os.environ[_S3])
    conf = {
        "spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{_hadoop_version()}",
        "spark.hadoop.fs.s3a.endpoint": storage["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": storage["AWS_REGION"],
        "spark.hadoop.fs.s3a.access.key": storage["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": storage["AWS_SECRET_ACCESS_KEY"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    spark = start_session("json-arrays", conf, "local[2]", time_zone="UTC")
    spark.range(1000).selectExpr("sum(id)").collect()

    def once() -> tuple[float, list[str]]:
        began = time.perf_counter()
        rows = spark.sql(statement).collect()
        return time.perf_counter() - began, sorted(str(tuple(row)) for row in rows)

    if side == TABLE:
        spark.read.format("delta").load(f"s3a://{BUCKET}/table").createOrReplaceTempView("events")
    else:
        folder, more = ("by-day", ", day int") if side == BY_DAY else ("arrays", "")
        arrays = spark.read.schema(SPARK_FIELDS + more).option("multiLine", "true")
        arrays.json(f"s3a://{BUCKET}/{folder}").createOrReplaceTempView("events")
    end = time.perf_counter() + _WARM_SECONDS
    first, rows = once()
    seconds = [first]
    while time.perf_counter() < end:
        seconds.append(once()[0])
    seconds += [once()[0] for _ in range(runs)]
    print(json.dumps({"seconds": seconds, "rows": rows}))


def _hadoop_version() -> str:
    import pyspark

    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments; `--measure` runs one query in this process."""
    if arguments[:1] == ["--measure"]:
        side, statement, runs = arguments[1:]
        measured(side, statement, int(runs))
        return
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--query", nargs="+", choices=QUERIES, default=tuple(QUERIES))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args(arguments)
    console = Console(width=measure.WIDTH)
    run(console, options.runs, options.records, options.query, options.plot)


if __name__ == "__main__":
    main(sys.argv[1:])
