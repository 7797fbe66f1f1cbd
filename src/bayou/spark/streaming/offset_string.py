"""The text of a streaming offset in Spark's checkpoint.

Spark compares offsets by their text. Its runner of Python sources writes a space behind commas and
colons, delta-spark doesn't: a query that moves over would take the same place for another one, and
run a batch without rows. So where the runner writes one of our offsets, it writes it as delta-spark
does; everything else it writes as ever.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["OffsetText", "write_as_delta_spark"]

_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


class OffsetText(dict[str, Any]):
    """An offset on its way to the runner."""

    @property
    def text(self) -> str:
        """As it stands in the checkpoint."""
        return json.dumps(self, separators=(",", ":"))


class _RunnersJson:
    """`json` as the runner uses it."""

    loads = staticmethod(json.loads)

    @staticmethod
    def dumps(value: object) -> str:
        if isinstance(value, OffsetText):
            return value.text
        return json.dumps(value)


def write_as_delta_spark() -> None:
    """Make this process's runner, if there is one, write `OffsetText` without spaces."""
    for name in (_RUNNER, "__main__"):
        runner = sys.modules.get(name)
        if getattr(runner, "latest_offset_func", None) is None:
            continue
        if getattr(runner, "json", None) is json:
            runner.json = _RunnersJson  # type: ignore[union-attr]
