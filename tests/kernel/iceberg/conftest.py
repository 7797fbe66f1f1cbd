from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.iceberg_tables import ICEBERG, ICEBERG_V3


@pytest.fixture(params=[ICEBERG, ICEBERG_V3], ids=["version-2", "version-3"])
def configuration(request: Any) -> dict[str, str]:
    return dict(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"
