"""Offsets of a stream of a Delta table, and their JSON in delta-spark's format.

The position of a file is the pair (version, index). For a file of the initial snapshot, the index
is the place of the file in the sorted list of the snapshot's files. For a file of a later commit,
the index is the place of the file in the commit. The first file has the index 0.

Spark compares the JSON text of offsets. delta-spark writes JSON without spaces, but PySpark's
runner of Python data sources writes spaces after commas and colons. If Bayou continued a
delta-spark query with such spaces, the text of the same offset would differ, and Spark would run an
empty batch. `write_as_delta_spark` makes the runner write offsets without spaces.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayou.errors import ArgumentError
from bayou.spark.streaming.errors import streaming_error

BASE_INDEX = -100
"""Index of an offset before the first file of a version. In JSON, the index is -1."""

METADATA_CHANGE_INDEX = -20
"""Index of an offset after the metadata change in a version, and before the version's first file.

A metadata change is a change of the schema, the protocol or the table properties.
"""

POST_METADATA_CHANGE_INDEX = -19
"""Index of the offset that follows an offset with `METADATA_CHANGE_INDEX`; no file is in between.

Spark commits an offset only when the source returns a later offset. The stream returns an offset
with this index, so that Spark commits the offset with `METADATA_CHANGE_INDEX`.
"""

END_INDEX = 2**63 - 101
"""Index of an offset after the last file of a version.

`SourceOffset.advanced_to` replaces such an offset by `BASE_INDEX` of the next version.
"""

_WRITTEN_BASE_INDEX = -1
_FIRST_FORMAT = 1
_METADATA_FORMAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """An offset of a stream. All files up to the position (version, index) have been read.

    Attributes:
        table_id: `metaData.id` of the table.
        index: index of the last file that was read, or a constant of this module such as
            `BASE_INDEX`.
        initial: whether the index refers to the files of the initial snapshot.
    """

    table_id: str
    version: int
    index: int = BASE_INDEX
    initial: bool = False

    @property
    def position(self) -> tuple[int, int]:
        """The pair (version, index), which defines the order of offsets."""
        return self.version, self.index

    @property
    def at_metadata_change(self) -> bool:
        """Whether the offset is between a metadata change and the files of the same version."""
        return self.index in (METADATA_CHANGE_INDEX, POST_METADATA_CHANGE_INDEX)

    def advanced_to(self, version: int, index: int) -> SourceOffset:
        """Return an offset of the same table at a later position (version, index)."""
        if index == END_INDEX:
            return SourceOffset(table_id=self.table_id, version=version + 1)
        initial = self.initial and version == self.version
        return replace(self, version=version, index=index, initial=initial)

    def to_json(self) -> dict[str, Any]:
        """Return the offset as a JSON object with delta-spark's fields, in delta-spark's order."""
        return {
            "sourceVersion": _METADATA_FORMAT if self.at_metadata_change else _FIRST_FORMAT,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": _WRITTEN_BASE_INDEX if self.index == BASE_INDEX else self.index,
            "isStartingVersion": self.initial,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, table_id: str, table: str) -> SourceOffset:
        """Parse an offset from the JSON object in a checkpoint.

        Raises:
            ArgumentError: the object isn't an offset of a Delta table, or has a newer format.
            StreamingSourceError: the offset belongs to another table.
        """
        json_value: object = data
        fields = data if isinstance(json_value, Mapping) else {}
        offset_format = fields.get("sourceVersion")
        values: tuple[Any, ...] = tuple(
            fields.get(name) for name in ("reservoirId", "reservoirVersion", "index")
        )
        if not isinstance(offset_format, int) or [type(v) for v in values] != [str, int, int]:
            raise ArgumentError(
                f"[DELTA_INVALID_SOURCE_OFFSET_FORMAT] Streaming checkpoint: {json_value!r} "
                "isn't an offset of a Delta table. Use a separate checkpointLocation for this "
                "query.",
                argument="checkpointLocation",
            )
        if offset_format not in (_FIRST_FORMAT, _METADATA_FORMAT):
            raise ArgumentError(
                "[DELTA_INVALID_SOURCE_VERSION] Streaming checkpoint: its offset has format "
                f"{offset_format}, but this version of Bayou reads formats 1 and 3. Use the "
                "version of Bayou or delta-spark that wrote the checkpoint.",
                argument="checkpointLocation",
            )
        offset_id, version, index = values
        if offset_id != table_id:
            raise streaming_error(
                "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
                f"Table {table}: its id is {table_id}, but the checkpoint belongs to a table with "
                f"id {offset_id}. The table was recreated, or the query reads another path. Read "
                "the checkpoint's table, or start the query with a new checkpointLocation.",
                table=table,
            )
        if offset_format < _METADATA_FORMAT and index == _WRITTEN_BASE_INDEX:
            index = BASE_INDEX
        return cls(
            table_id=table_id,
            version=version,
            index=index,
            initial=bool(data.get("isStartingVersion")),
        )


_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


class RunnerOffset(dict[str, Any]):
    """The JSON object of an offset. PySpark's source runner requires a dictionary."""

    @property
    def text(self) -> str:
        """The JSON text of the offset for the checkpoint. As in delta-spark, it has no spaces."""
        return json.dumps(self, separators=(",", ":"))


class _RunnerJson:
    """Replacement for the module `json` in PySpark's runner; writes offsets without spaces."""

    loads = staticmethod(json.loads)

    @staticmethod
    def dumps(value: object) -> str:
        if isinstance(value, RunnerOffset):
            return value.text
        return json.dumps(value)


def write_as_delta_spark() -> None:
    """In the process of PySpark's runner, make the runner write offsets without spaces."""
    for name in (_RUNNER, "__main__"):
        runner = sys.modules.get(name)
        if getattr(runner, "latest_offset_func", None) is None:
            continue
        if getattr(runner, "json", None) is json:
            runner.json = _RunnerJson  # type: ignore[union-attr]
