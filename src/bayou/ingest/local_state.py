"""The local state of a topic: its lock, and the last run of each maintenance task.

The state can be deleted, because a run reads its offsets from the table. The lock prevents a second
process on this machine from running the same topic. If two machines run the same topic, their
commits conflict, so that no record is written twice.

`bayou migrate` holds the lock in shared mode, so that several migrations can run concurrently. A
migration can't run at the same time as the pipeline: the recorded offsets decide which records the
migration skips, and a running pipeline changes these offsets.
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


def create_folder(folder: Path) -> None:
    """Create a folder for state; raise `PrerequisiteError` if this isn't possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL character
        raise state_path_error(folder, error) from error


@contextlib.contextmanager
def topic_lock(state_path: Path, topic: str, *, shared: bool = False) -> Iterator[Path]:
    """Hold the lock of a topic, and yield the folder of the topic's state.

    If `shared` is true, several processes can hold the lock in shared mode at the same time.
    """
    folder = topic_folder(state_path, topic)
    create_folder(folder)
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise state_path_error(folder, error) from error
    try:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            or_migrates = "" if shared else " or migrates files into its table"
            raise PipelineError(
                f"topic {topic!r}: another process runs it{or_migrates} and holds the lock "
                f"{folder / 'lock'}. Stop that process, or wait until it ends.",
                topic=topic,
            ) from error
        yield folder
    finally:
        os.close(lock)


def is_running_locally(state_path: Path, topic: str) -> bool:
    """Whether a pipeline on this machine runs the topic, so that it holds the topic's lock."""
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


def state_path_error(path: Path, error: OSError | ValueError) -> PrerequisiteError:
    """Return the error to raise if a folder or a file of the state path can't be used."""
    shown, hint = str(path), "Make it writable"
    if "\0" in shown:
        shown, reason, hint = repr(shown), "it contains a NUL character", "Remove the character"
    elif isinstance(error, OSError) and error.errno:
        reason, hint = os.strerror(error.errno), _HINTS.get(error.errno, hint)
    else:
        reason = str(error)
    return PrerequisiteError(
        f"The state path {shown} can't be used: {reason}. {hint}, or set connector.state-path.",
        what="state-path",
    )


def topic_folder(state_path: Path, topic: str) -> Path:
    """Return the folder of a topic's state. Each topic has a different folder."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", topic)
    if name != topic or not name.strip("."):
        name += "-" + hashlib.sha256(topic.encode()).hexdigest()[:8]
    return state_path / name


_HINTS = {
    errno.ENOSPC: "Free disk space",
    errno.EDQUOT: "Free disk space",
    errno.EISDIR: "Move this folder away, because its path must be a file",
    errno.ENOTDIR: "Move this file away, because its path must be a folder",
    errno.EEXIST: "Move this file away, because its path must be a folder",
}
