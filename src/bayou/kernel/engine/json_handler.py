"""The JSON handler of an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine.file_system import FileStatus
from bayou.kernel.expressions.model import Predicate


class JsonHandler(Protocol):
    """Reads JSON strings and files as columns, and writes JSON files. Thread-safe."""

    def parse_json(
        self,
        json_strings: pa.Array[Any],
        output_schema: pa.Schema,
        selection: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        """Parse strings that contain one JSON object each.

        A null string, a missing field and a JSON null become null. Fields that aren't in
        `output_schema` are ignored. All fields are nullable. Floats may be the strings `"NaN"`,
        `"Infinity"` and `"-Infinity"`. A number out of range or a value of another JSON type
        becomes null, so that an invalid statistic counts as missing.

        Args:
            selection: the strings to parse, one value for each, with null for false. The rows of
                the other strings are null.

        Returns:
            A batch with exactly `output_schema` and one row for each string.

        Raises:
            SerializationError: a selected string isn't a JSON object.
        """
        ...

    def read_json_files(
        self,
        files: Iterable[FileStatus],
        physical_schema: pa.Schema,
        predicate: Predicate | None = None,
        *,
        batch_size: int = 65_536,
    ) -> CloseableIterator[pa.RecordBatch]:
        """Read files with one JSON object per line, in the order of files and lines.

        Lines are parsed as by `parse_json`, and blank lines are skipped. A batch never spans two
        files. `predicate` is a hint over columns of `physical_schema`: rows that can't match may be
        omitted.

        Returns:
            Non-empty batches with exactly `physical_schema` and at most `batch_size` rows.

        Raises:
            FileMissingError: a file doesn't exist.
            SerializationError: a line isn't a JSON object. The message names the file and the line.
        """
        ...

    def write_json_file_atomically(
        self, path: str, lines: Iterable[bytes], *, overwrite: bool = False
    ) -> bool:
        """Write lines of JSON to a file atomically, if it is absent or `overwrite` is True.

        Returns:
            True if the file was written. False if a file exists and `overwrite` is False; the
            existing file stays unchanged.

        Raises:
            StorageError: the result is unknown: the file may exist now or appear later.
        """
        ...
