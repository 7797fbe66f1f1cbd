"""JSON, as an engine reads and writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine.file_system import FileStatus
from bayou.kernel.expressions.model import Predicate

__all__ = ["JsonHandler"]


class JsonHandler(Protocol):
    """JSON texts and files to columns and back. Safe to be used from several threads."""

    def parse_json(
        self,
        texts: pa.Array[Any],
        output_schema: pa.Schema,
        selection: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        """Parse one JSON object a row.

        A null text, an absent field or a JSON null gives null; fields that aren't in
        `output_schema` are ignored; all fields are taken as nullable. A row that `selection` (one
        value a text, null for false) leaves out is all nulls, whatever its text holds. Floats may
        be the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. Numbers outside of a type, or a
        value of another JSON type, give null for that value: a statistic that can't be read is a
        statistic that isn't there.

        Returns:
            A batch with exactly `output_schema`, as many rows as texts.

        Raises:
            SerializationError: a selected text isn't a JSON object.
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
        """Read files of one JSON object a line, in the order of the files and of their lines.

        A line is taken as a text is by `parse_json`; blank ones are passed over. No batch has rows
        of two files. `predicate` is a hint over columns of `physical_schema`: rows that can't match
        may be left out.

        Returns:
            Batches with exactly `physical_schema`, at most `batch_size` rows each; none is empty.

        Raises:
            FileMissingError: no such file.
            SerializationError: a line isn't a JSON object; names file and line.
        """
        ...

    def write_json_file_atomically(
        self, path: str, lines: Iterable[bytes], *, overwrite: bool = False
    ) -> bool:
        """Write newline-separated JSON, all or nothing. The put-if-absent of a commit.

        Returns:
            True: written. False: `overwrite` is off and there is a file, which is untouched.

        Raises:
            StorageError: outcome unknown.
        """
        ...
