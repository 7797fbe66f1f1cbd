"""Settings that all tests share; the plugins are in `tests/support`."""

from __future__ import annotations

import os

import pytest

# Assertions in these modules are tests too: registered before any test imports them.
pytest.register_assert_rewrite("bayou.testing", "support")

pytest_plugins = [
    "support.conformance_plugin",
    "support.examples",
    "support.process_guard",
    "support.shared_servers",
    "support.small_pipelines",
    "support.spark_session",
]

# Spark's JVMs of tests live for seconds: the optimizing compiler and the parallel collector cost
# them more than they bring (a third of the time, on two cores).
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# `make test-peers` installs their environment and sets the variable.
collect_ignore = [] if "BAYOU_PEERS" in os.environ else ["peers"]
