"""The JSON handler of an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine.file_system import FileStatus
from bayou.kernel.expressions.model import Predicate


class JsonHandler(Protocol):
    """Reads JSON strings and files as columns, and writes JSON files. Thread-safe.

    Examples:
        >>> schema = pa.schema([("id", pa.int64())])
        >>> engine.json.parse_json(pa.array(['{"id": 1}']), schema)
    """

    def parse_json(
        self,
        json_strings: pa.Array[Any],
        output_schema: pa.Schema,
        selection: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        """Parse strings that contain one JSON object each.

        A null string becomes a row of nulls. A missing field and a JSON null become null. Fields
        that aren't in `output_schema` are ignored. All fields are nullable. The strings `"NaN"`,
        `"Infinity"` and `"-Infinity"` are valid floats. A value whose JSON type doesn't match the
        type of the field becomes null. A number out of the type's range becomes null, too.

        Args:
            selection: mask with one value for each string: true to parse the string. If the value
                is false or null, the row is null. If the mask is None, all strings are parsed.

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

        Lines are parsed as in `parse_json`; blank lines are skipped. A batch never spans two files.
        `predicate` is a hint over columns of `physical_schema`: rows that can't match may be
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
        """Write lines of JSON to a file atomically; replace a file only if `overwrite` is True.

        Returns:
            True if the file was written. False if a file exists and `overwrite` is False; then the
            existing file is unchanged.

        Raises:
            StorageError: it is unknown whether the file was written: it may exist now or appear
                later.
        """
        ...
