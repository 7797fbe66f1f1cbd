"""What happens to Python workers of Spark in a test: the interpreter imports this when it starts.

A table's folder below `BAYOU_TEST_ROOT` is called as what is done to it. When something is done to
a table and its mark isn't there yet, a worker makes the mark and does what `mode` says.
"""

import os
import resource
import signal
import sys
import threading
from pathlib import Path


def _hook() -> None:
    from bayou.engines.arrow.storage.local_files import LocalFiles, LocalOutput  # no hook
    from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles

    close, delete, opened = LocalOutput.close, LocalFiles.delete_files, LocalFiles.open_output
    list_tree = ObjectStoreFiles.list_tree

    def closed(output):
        if not output.closed and "full" not in _mode():
            _reach(output._path)
        close(output)

    def deleted(files, paths):
        for path in paths:
            delete(files, [path])
            _reach(path)

    def opened_full(files, path):
        _limit_files(1000 if "full" in _mode() else None)
        return opened(files, path)

    def listed(files, path, skips, **ends):
        _reach(os.path.join(os.environ["BAYOU_TEST_ROOT"], os.path.basename(path), ""))
        return list_tree(files, path, skips, **ends)

    LocalOutput.close, LocalFiles.delete_files = closed, deleted
    LocalFiles.open_output, ObjectStoreFiles.list_tree = opened_full, listed


def _mode() -> str:
    return (_MARKS / "mode").read_text()


def _reach(path: str) -> None:
    """The first time passes, the second is an event."""
    case = os.path.relpath(path, os.environ["BAYOU_TEST_ROOT"]).split(os.sep)[0]
    if f" {case} " not in _mode() or _is_first(f"{case}-passed") or not _is_first(case):
        return
    if _mode().startswith("kill"):
        os.kill(_executor(), signal.SIGKILL)
    threading.Event().wait()  # until this process is killed with its driver, or its executor


def _is_first(name: str) -> bool:
    try:
        os.close(os.open(_MARKS / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid


def _limit_files(size: int | None) -> None:
    """Let files grow so far only, as on a disk that is full then; None: without end."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


if "pyspark.daemon" in sys.orig_argv and "BAYOU_TEST_MARKS" in os.environ:
    _MARKS = Path(os.environ["BAYOU_TEST_MARKS"])
    _hook()
