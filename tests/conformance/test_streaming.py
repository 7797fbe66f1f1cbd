"""Micro-batches as delta-spark cuts them: every recorded trace, row by row and offset by offset."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bayou.spark import enable
from support import conformance_sets

pytestmark = [pytest.mark.spark, pytest.mark.conformance]

_SETS = conformance_sets.folder()
_TRACES = [] if _SETS is None else sorted((_SETS / "streaming" / "traces").glob("*.json"))
_ENDED = "terminated with exception: SQLSTATE"
"""A query that Spark ends without a reason, as it does when the process that plans its batches is
gone. Seen once in about a thousand queries, on a loaded machine: such a trace runs once more."""
_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "300",
    "spark.sql.streaming.stopTimeout": "30s",
}


@pytest.fixture(scope="module")
def runner() -> Iterator[Any]:
    """The set's own runner as a module. It sets this process's time zone to UTC."""
    assert _SETS is not None
    file = _SETS / "streaming" / "run_streaming_traces.py"
    spec = importlib.util.spec_from_file_location("run_streaming_traces", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    zone = os.environ.get("TZ")
    spec.loader.exec_module(module)
    yield module
    if zone is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = zone
    time.tzset()


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """A session with the settings of the runner's own, in the JVM that the other tests use."""
    new = spark.newSession()
    enable(new)
    for key, value in _CONF.items():
        new.conf.set(key, value)
    return new


def test_there_are_as_many_traces_as_were_recorded() -> None:
    assert len(_TRACES) == 40


@pytest.mark.parametrize("trace", _TRACES, ids=lambda file: file.stem)
def test_a_trace_of_delta_sparks_source_is_replayed(
    runner: Any, session: Any, trace: Path, tmp_path: Path
) -> None:
    case = json.loads(trace.read_text())
    differences = _differences(runner, session, case, tmp_path / "first")
    if any(_ENDED in difference for difference in differences):
        differences = _differences(runner, session, case, tmp_path / "second")
    assert differences == []


def _differences(runner: Any, session: Any, case: dict[str, Any], root: Path) -> list[str]:
    root.mkdir()
    batches, _ = runner.run_case(session, case, str(root))
    return list(runner.compare(case, batches, strict=True))
