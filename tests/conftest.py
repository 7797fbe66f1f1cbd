"""Settings that all tests share; the plugins are in `tests/support`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
# them more than they bring (a third of the time, on two cores). The archive of classes that
# `make test` writes saves as much again.
_ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
if _ARCHIVE.is_file():
    _JAVA_OPTIONS += [f"-XX:SharedArchiveFile={_ARCHIVE}", "-Xlog:cds*=off"]
for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(name, " ".join(_JAVA_OPTIONS))

# `make test-peers` installs their environment and sets the variable.
collect_ignore = [] if "BAYOU_PEERS" in os.environ else ["peers"]
