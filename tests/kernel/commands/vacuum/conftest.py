"""The table of the VACUUM tests, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from support.log_writer import LogWriter


@pytest.fixture(params=["memory", "disk"])
def log(request: pytest.FixtureRequest, table_path: str, tmp_path: Path) -> LogWriter:
    if request.param == "memory":
        return LogWriter(MemoryEngine(), table_path)
    return LogWriter(ArrowEngine(), str(tmp_path / "a table"))
