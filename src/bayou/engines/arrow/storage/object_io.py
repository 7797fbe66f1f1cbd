"""Objects of a store as Python files that pyarrow reads and writes."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import obstore
from obstore.store import ObjectStore

from bayou.engines.arrow.storage.range_reads import RangeInput

_PART = 8 << 20
"""Maximum number of bytes of a request. Larger reads are split into concurrent requests."""


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
            starts = list(range(start, end, _PART))
            if len(starts) == 1:
                return obstore.get_range(self._store, self._key, start=start, end=end).to_bytes()
            parts = obstore.get_ranges(
                self._store, self._key, starts=starts, ends=[*starts[1:], end], coalesce=0
            )
            return b"".join(parts)


class ObjectOutput(io.RawIOBase):
    """An object that is uploaded in parts and created when the output is closed.

    No object is created if the `with` block raises an exception, or if the output is
    garbage-collected without `close`.
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
