"""The process that runs tasks of micro-batches while Spark starts; see `StartupSession`.

It reads pickled tasks from stdin and writes their pickled results to stdout. It ends when stdin is
closed, so it doesn't outlive the pipeline.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import IO, Any

from pyspark import cloudpickle

_IMPORTS = ("confluent_kafka", "bayou.ingest.batch.batch_task", "bayou.spark.kafka")


def write_message(stream: IO[bytes], message: Any) -> None:
    """Write a pickled message with its length."""
    data: bytes = cloudpickle.dumps(message)  # type: ignore[no-untyped-call]
    stream.write(len(data).to_bytes(8, "big"))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """Read a message.

    Raises:
        EOFError: the stream has ended.
    """
    header = stream.read(8)
    data = stream.read(int.from_bytes(header, "big")) if len(header) == 8 else b""
    if len(header) < 8 or len(data) < int.from_bytes(header, "big"):
        raise EOFError
    return cloudpickle.loads(data)


def _main() -> None:
    # These signals may reach all processes of the pipeline, which first ends the running batch.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep output of libraries out of the results
    for name in _IMPORTS:
        importlib.import_module(name)
    while True:
        try:
            task, value = read_message(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = True, task(value)
        except Exception as error:  # noqa: BLE001  # the caller runs the task again in Spark
            answer = False, repr(error)
        write_message(results, answer)


if __name__ == "__main__":
    _main()
