"""Where a stream stands in a table, and the JSON that delta-spark writes it in.

A table's files have a place each: those of the initial snapshot, sorted, at (version, 0), (version,
1), ...; then those of each commit behind it, in the order of the log. Places are ordered as pairs.

The text of a streaming offset in Spark's checkpoint.

Spark compares offsets by their text. Its runner of Python sources writes a space behind commas and
colons, delta-spark doesn't: a query that moves over would take the same place for another one, and
run a batch without rows. So where the runner writes one of our offsets, it writes it as delta-spark
does; everything else it writes as ever.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayou.errors import ArgumentError
from bayou.spark.streaming.errors import refusal

__all__ = [
    "BASE_INDEX",
    "END_INDEX",
    "METADATA_CHANGE_INDEX",
    "POST_METADATA_CHANGE_INDEX",
    "OffsetText",
    "SourceOffset",
    "write_as_delta_spark",
]


BASE_INDEX = -100
"""Before all of a version; -1 in JSON."""

METADATA_CHANGE_INDEX = -20
"""Behind a change of schema, protocol or properties that stands before a version's files."""

POST_METADATA_CHANGE_INDEX = -19
"""The same once more: Spark commits an offset only when there is another one."""

END_INDEX = 2**63 - 101
"""Behind all of a version; never written, the next version's base is."""

_WRITTEN_BASE_INDEX = -1
_FIRST_FORMAT = 1
_METADATA_FORMAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """What is read: everything up to and with this place.

    Attributes:
        table_id: `metaData.id` of the table.
        version: a version.
        index: of a file in it, or one of the constants.
        initial: whether the version's files are those of the initial snapshot.
    """

    table_id: str
    version: int
    index: int = BASE_INDEX
    initial: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Version and index, by which offsets of one table are ordered."""
        return self.version, self.index

    @property
    def at_metadata_change(self) -> bool:
        """Whether a change of metadata is to be taken over before the stream goes on."""
        return self.index in (METADATA_CHANGE_INDEX, POST_METADATA_CHANGE_INDEX)

    def behind(self, version: int, index: int) -> SourceOffset:
        """The offset at which a stream stands that began here and has read up to a place."""
        if index == END_INDEX:
            return SourceOffset(table_id=self.table_id, version=version + 1)
        initial = self.initial and version == self.version
        return replace(self, version=version, index=index, initial=initial)

    def to_json(self) -> dict[str, Any]:
        """As delta-spark has it, fields in its order."""
        return {
            "sourceVersion": _METADATA_FORMAT if self.at_metadata_change else _FIRST_FORMAT,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": _WRITTEN_BASE_INDEX if self.index == BASE_INDEX else self.index,
            "isStartingVersion": self.initial,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, table_id: str, table: str) -> SourceOffset:
        """The inverse of `to_json`, for what is in a checkpoint.

        Raises:
            ArgumentError: that isn't an offset of a Delta table, or one of a newer format.
            StreamingSourceError: it is an offset of another table.
        """
        given: object = data
        known = data if isinstance(given, Mapping) else {}
        offset_format = known.get("sourceVersion")
        found: tuple[Any, ...] = tuple(
            known.get(name) for name in ("reservoirId", "reservoirVersion", "index")
        )
        if not isinstance(offset_format, int) or [type(v) for v in found] != [str, int, int]:
            raise ArgumentError(
                "[DELTA_INVALID_SOURCE_OFFSET_FORMAT] The checkpoint's offset isn't that of a "
                f"Delta table: {given!r}. Start with a checkpoint of its own.",
                argument="checkpointLocation",
            )
        if offset_format not in (_FIRST_FORMAT, _METADATA_FORMAT):
            raise ArgumentError(
                f"[DELTA_INVALID_SOURCE_VERSION] The checkpoint's offset has the format "
                f"{offset_format}; this version of Bayou reads 1 and 3. Use the version that "
                "wrote it.",
                argument="checkpointLocation",
            )
        offset_id, version, index = found
        if offset_id != table_id:
            raise refusal(
                "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
                f"The query read another table before (id {offset_id} in its checkpoint) than the "
                f"one at {table} now (id {table_id}). Was the table deleted and made again, or the "
                "path changed? Read from the table of the checkpoint, or start over with a new "
                "checkpointLocation.",
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


class OffsetText(dict[str, Any]):
    """An offset on its way to the runner."""

    @property
    def text(self) -> str:
        """As it stands in the checkpoint."""
        return json.dumps(self, separators=(",", ":"))


class _RunnersJson:
    """`json` as the runner uses it."""

    loads = staticmethod(json.loads)

    @staticmethod
    def dumps(value: object) -> str:
        if isinstance(value, OffsetText):
            return value.text
        return json.dumps(value)


def write_as_delta_spark() -> None:
    """Make this process's runner, if there is one, write `OffsetText` without spaces."""
    for name in (_RUNNER, "__main__"):
        runner = sys.modules.get(name)
        if getattr(runner, "latest_offset_func", None) is None:
            continue
        if getattr(runner, "json", None) is json:
            runner.json = _RunnersJson  # type: ignore[union-attr]
