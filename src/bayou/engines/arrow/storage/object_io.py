"""Objects of a store as Python files that pyarrow reads and writes."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import obstore
from obstore.store import ObjectStore

from bayou.engines.arrow.storage.conditional_put import PART_BYTES, put_object
from bayou.engines.arrow.storage.range_reads import RangeInput


class ObjectInput(RangeInput):
    """A seekable input of an object. It has no buffer: each read requests bytes from the store."""

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        size: int,
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(size)
        self._store, self._key, self._errors = store, key, errors

    def read_range(self, start: int, end: int) -> bytes:
        with self._errors():
            starts = list(range(start, end, PART_BYTES))
            if len(starts) == 1:
                return obstore.get_range(self._store, self._key, start=start, end=end).to_bytes()
            parts = obstore.get_ranges(
                self._store, self._key, starts=starts, ends=[*starts[1:], end], coalesce=0
            )
            return b"".join(parts)


class ObjectOutput(io.RawIOBase):
    """An object that is created when the output is closed. A large object is uploaded in parts.

    No object is created if the `with` block raises an exception, or if the output is
    garbage-collected without `close`.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._store, self._key, self._errors = store, key, errors
        self._position = 0
        self._start = bytearray()  # the object's first bytes, until the upload in parts starts
        self._upload: Any = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")  # obstore rejects Arrow's buffers of signed bytes
        if self._upload is None and len(self._start) + view.nbytes <= PART_BYTES:
            self._start += view
        else:
            with self._errors():
                self._upload_in_parts().write(view)
        self._position += view.nbytes
        return view.nbytes

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._upload is None:
                put_object(self._store, self._key, bytes(self._start), self._errors)
            else:
                with self._errors():
                    self._upload.close()
        finally:
            super().close()

    def discard(self) -> None:
        """Discard the uploaded parts; no object is created."""
        if self.closed:
            return
        if self._upload is not None:
            with suppress(Exception):
                self._upload.__exit__(RuntimeError, RuntimeError("discarded"), None)
        super().close()

    def _upload_in_parts(self) -> Any:
        if self._upload is None:
            self._upload = obstore.open_writer(self._store, self._key, buffer_size=PART_BYTES)
            self._upload.write(bytes(self._start))
            self._start.clear()
        return self._upload

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()
