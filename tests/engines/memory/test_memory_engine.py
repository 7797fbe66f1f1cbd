from __future__ import annotations

import uuid

import pytest

from bayou.engines.memory import MemoryEngine
from bayou.testing import EngineSuite


class TestMemoryEngine(EngineSuite):
    @pytest.fixture
    def engine(self) -> MemoryEngine:
        return MemoryEngine()

    @pytest.fixture
    def root(self) -> str:
        return f"memory://{uuid.uuid4()}/place"
