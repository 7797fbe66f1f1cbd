"""A file system client that returns only a part of some files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bayou.engines.arrow.files import ArrowFiles
from bayou.kernel import closeable
from bayou.kernel.engine import ByteRange

__all__ = ["ShortResponses", "without_last_line"]


class ShortResponses(ArrowFiles):
    """Returns an incomplete content for files whose path ends with `name`.

    Args:
        cut: returns the part of a file's content that is returned.
    """

    def __init__(self, name: str, cut: Callable[[bytes], bytes]) -> None:
        super().__init__({})
        self._name = name
        self._cut = cut

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        """Read the ranges, and cut those of the chosen files."""
        ranges = list(ranges)
        with super().read_files(ranges) as contents:
            for requested, data in zip(ranges, contents, strict=True):
                yield self._cut(data) if requested.path.endswith(self._name) else data


def without_last_line(data: bytes) -> bytes:
    """Return the content without its last line."""
    return data[: data.rstrip(b"\n").rfind(b"\n") + 1]
