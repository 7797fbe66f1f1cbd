"""A new stream that has nothing to read yet, and so should wait without a first batch.

Spark runs a batch as soon as a stream without a checkpoint says where it ends, and a Python source
can't leave that open. The driver's process can tell Spark where the stream begins, and then Spark
sees that it ends where it begins.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from bayou.spark.streaming.driver_folder import ask

__all__ = ["STARTED", "WAITS", "WaitingStream", "begins_at", "waiting_streams"]

WAITS = "waits"
STARTED = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStream:
    """A stream that waits, and the text of the offset that it begins with."""

    offset: str
    folder: Path


def begins_at(shared: Path | None, offset: str) -> bool:
    """Have the driver's process tell Spark where this stream begins; whether it could.

    Args:
        shared: the folder of both processes, None for none.
        offset: the text that Spark has it by.
    """
    folder = f"{WAITS}-{uuid.uuid4()}"
    return ask(shared, folder, WAITS, _started, offset) is not None


def waiting_streams(shared: Path) -> list[WaitingStream]:
    """The streams that wait in a folder."""
    return [
        WaitingStream(offset=file.read_text(), folder=file.parent)
        for file in shared.glob(f"*/{WAITS}")
    ]


def _started(folder: Path) -> bool | None:
    return True if (folder / STARTED).exists() else None
