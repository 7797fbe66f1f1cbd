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
    "support.processed_pipelines",
    "support.routed_pipelines",
    "support.shared_servers",
    "support.small_pipelines",
    "support.spark_session",
    "support.unity_server",
]

# Spark's JVMs of tests live for seconds: the optimizing compiler and the parallel collector cost
# them more than they bring (a third of the time, on two cores).
_JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
# `make test` makes it, by `tools/spark_home.py`; without it everything starts more slowly.
_SPARK_HOME = Path(sys.prefix) / "spark-home"
if (_SPARK_HOME / "classes.jsa").is_file():
    os.environ["SPARK_HOME"] = str(_SPARK_HOME)
    _JAVA_OPTIONS += [f"-XX:SharedArchiveFile={_SPARK_HOME / 'classes.jsa'}", "-Xlog:cds*=off"]
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(_name, " ".join(_JAVA_OPTIONS))

# `make test-peers`, `make test-airflow` and `make test-iceberg` install these environments and
# set the variables.
_ENVIRONMENTS = {"peers": "BAYOU_PEERS", "airflow": "BAYOU_AIRFLOW", "iceberg": "BAYOU_ICEBERG"}
collect_ignore = [name for name, variable in _ENVIRONMENTS.items() if variable not in os.environ]
