from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from obstore.store import MemoryStore

from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.object_store_files import ObjectStoreFiles
from bayou.testing import EngineSuite


class TestOnLocalDisk(EngineSuite):
    ODD_NAMES: ClassVar[Sequence[str]] = (*EngineSuite.ODD_NAMES, "line\nend", "back\\slash", "\t")

    @pytest.fixture
    def engine(self) -> ArrowEngine:
        return ArrowEngine()

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "place")


class TestOnAnObjectStore(EngineSuite):
    @pytest.fixture
    def engine(self) -> ArrowEngine:
        return ArrowEngine(files=ObjectStoreFiles(stores={"s3://bucket": MemoryStore()}))

    @pytest.fixture
    def root(self) -> str:
        return "s3://bucket/place"
