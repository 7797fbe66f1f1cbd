"""Buckets and environments for tests on the run's S3 server; all tests here may start processes."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from servers import S3Server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("process")


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A bucket of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    s3_server.create_bucket(name)
    return name


@pytest.fixture
def environment(s3_server: S3Server) -> dict[str, str]:
    """An environment in which a process reaches the S3 server and says nothing of other ones."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "KAFKA_", "BAYOU_"))}
    return {**kept, **s3_server.storage_options}
