"""The local state of a topic's run: a lock, and the folder for Spark's checkpoint.

Neither is needed to go on later. The lock keeps a second copy on this machine from doing the same
work for nothing; across machines the tables' transactions do. `bayou migrate` holds it too, shared
with others that migrate and with no run: which records of files are left to Kafka is decided by
what the table covers, and a first run changes that.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from bayou.errors import PipelineError, PrerequisiteError

__all__ = [
    "make_folder",
    "runs_here",
    "topic_folder",
    "topic_lock",
    "unusable",
]


def make_folder(folder: Path) -> None:
    """Make a folder of the state path.

    Raises:
        PrerequisiteError: it can't be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from error


@contextlib.contextmanager
def topic_lock(state_path: Path, topic: str, *, shared: bool = False) -> Iterator[Path]:
    """The folder of a topic's state, held while nobody else may.

    Args:
        state_path: of the configuration.
        topic: its name there.
        shared: others that hold it so may too.

    Raises:
        PipelineError: another process has it.
        PrerequisiteError: the folder can't be made.
    """
    folder = topic_folder(state_path, topic)
    make_folder(folder)
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unusable(folder, error) from error
    try:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            more = "" if shared else ", or migrates files into its table"
            raise PipelineError(
                f"topic {topic!r}: another process runs it{more} (it holds {folder / 'lock'}); "
                "stop that one, or wait for its end.",
                topic=topic,
            ) from error
        yield folder
    finally:
        os.close(lock)


def runs_here(state_path: Path, topic: str) -> bool:
    """Whether a process on this machine runs the topic: it holds the topic's lock."""
    try:
        lock = os.open(topic_folder(state_path, topic) / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def unusable(path: Path, error: OSError) -> PrerequisiteError:
    """The error for a folder or a file of the state path that the system refuses."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = _HINTS.get(error.errno or 0, "make it writable")
    return PrerequisiteError(
        f"The state path {path} can't be used: {reason}; {hint}, or set connector.state-path.",
        what="state-path",
    )


def topic_folder(state_path: Path, topic: str) -> Path:
    """Where a topic's state is; of two topics never the same."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", topic)
    if name != topic or not name.strip("."):
        name += "-" + hashlib.sha256(topic.encode()).hexdigest()[:8]
    return state_path / name


_HINTS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EISDIR: "a file belongs there, so move that folder away",
    errno.ENOTDIR: "a folder belongs there, so move that file away",
    errno.EEXIST: "a folder belongs there, so move that file away",
}
