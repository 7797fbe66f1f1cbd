"""Finds engines in a table's history that write commits to S3 without put-if-absent.

delta-spark up to 4.4.0 and Delta Kernel for Java use `S3SingleDriverLogStore` by default. This
class checks whether a commit file exists, and then writes the file unconditionally. Another writer
can commit the same version between the two requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from bayou.api import SnapshotHandle
from bayou.kernel.catalog import is_catalog_managed

_COMMITS = 100
"""Number of commits to read, newest first."""

_ENGINES = re.compile(r"\bDelta-Lake/\d|\AKernel-\d")
"""Regular expression that matches the `engineInfo` of delta-spark and of Delta Kernel for Java.

Examples are `Apache-Spark/4.2.0 Delta-Lake/4.4.0` and `Kernel-4.4.0/Flink`. The log doesn't show
which `LogStore` class an engine used.
"""


def unconditional_commits(
    snapshot: SnapshotHandle, history: Callable[[int], list[dict[str, Any]]]
) -> dict[str, int]:
    """Find engines that committed to a table and that don't use put-if-absent on S3 by default.

    Only the newest 100 commits are read. The result is empty if the table isn't on S3, or if it is
    catalog-managed.

    Args:
        history: function that returns the newest commits of the table, such as
            `TableHandle.history`.

    Returns:
        For each `engineInfo` of such an engine, the newest version that the engine has committed.
    """
    on_s3 = snapshot.kernel.path.startswith("s3://")
    if not on_s3 or is_catalog_managed(snapshot.protocol.reader_features or ()):
        return {}
    engines: dict[str, int] = {}
    for commit in history(_COMMITS):
        engine = str(commit.get("engineInfo") or "")
        if _ENGINES.search(engine):
            engines.setdefault(engine, commit["version"])
    return engines


def unconditional_commits_warning(path: str, engines: Mapping[str, int]) -> str:
    """Return the warning about engines that may replace commits of other writers."""
    listed = ", ".join(f"{engine} (version {version})" for engine, version in engines.items())
    return (
        f"{path}: has commits of {listed}. Unless configured otherwise, this engine writes commits "
        "to S3 without put-if-absent and can replace commits of other writers. Let a single engine "
        "write the table: see delta-spark on S3 on the page Stores of the documentation"
    )
