"""What is collected where."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Its assertions are tests too. Said here, before any test imports it.
pytest.register_assert_rewrite("bayou.testing")

# No test asserts a time: neither does Hypothesis of an example.
settings.register_profile("bayou", deadline=None)
settings.load_profile("bayou")

# Their environment is made by `make test-peers`, which says so.
collect_ignore = [] if "BAYOU_PEERS" in os.environ else ["peers"]
