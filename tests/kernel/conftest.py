"""A table in memory whose log each test writes by hand."""

from __future__ import annotations

import uuid

import pytest

from bayou.engines.memory import MemoryEngine
from support.log_writer import LogWriter


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture
def table_path() -> str:
    return f"memory://{uuid.uuid4().hex}/table"


@pytest.fixture
def log(engine: MemoryEngine, table_path: str) -> LogWriter:
    return LogWriter(engine, table_path)
