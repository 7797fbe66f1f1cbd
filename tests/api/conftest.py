"""A path in memory and one on the disk."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "disk"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return f"memory://{uuid.uuid4().hex}/table"
    return str(tmp_path / "a table")
