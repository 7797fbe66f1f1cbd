"""Objects of a store as Python files that pyarrow reads and writes."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import obstore
from obstore.store import ObjectStore

_PART = 8 << 20
"""Maximum bytes of a request: a larger read is split into parts that are fetched concurrently."""


class ObjectInput(io.RawIOBase):
    """Random access to an object of known size; every read is a request."""

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        size: int,
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._store, self._key, self._size, self._errors = store, key, size, errors
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        start = self._position
        end = self._size if size is None or size < 0 else min(self._size, start + size)
        if end <= start:
            return b""
        with self._errors():
            starts = list(range(start, end, _PART))
            if len(starts) == 1:
                data = obstore.get_range(self._store, self._key, start=start, end=end).to_bytes()
            else:
                ends = [*starts[1:], end]
                parts = obstore.get_ranges(
                    self._store, self._key, starts=starts, ends=ends, coalesce=0
                )
                data = b"".join(parts)
        self._position = start + len(data)
        return data

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self.read(-1)


class ObjectOutput(io.RawIOBase):
    """An object that is uploaded in parts and created when the output is closed.

    If its `with` block raises an exception, or it is garbage-collected without `close`, no object
    is created.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._errors = errors
        self._position = 0
        with errors():
            self._writer = obstore.open_writer(store, key, buffer_size=_PART)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")  # obstore rejects Arrow's buffers of signed bytes
        with self._errors():
            self._writer.write(view)
        self._position += view.nbytes
        return view.nbytes

    def close(self) -> None:
        if self.closed:
            return
        try:
            with self._errors():
                self._writer.close()
        finally:
            super().close()

    def discard(self) -> None:
        """Discard the uploaded parts; no object is created."""
        if self.closed:
            return
        with suppress(Exception):
            self._writer.__exit__(RuntimeError, RuntimeError("discarded"), None)
        super().close()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()
