"""The version of the package, and the engine info of its commits."""

VERSION = "0.1.0"
"""The version; `pyproject.toml` has the same."""

ENGINE_INFO = f"bayou/{VERSION}"
"""Value of `commitInfo.engineInfo` in Bayou's commits, except those with `INGEST_ENGINE_INFO`."""

INGEST_SUFFIX = " (ingest)"
"""Suffix that a pipeline adds to `ENGINE_INFO` in commits of its records and offsets."""

INGEST_ENGINE_INFO = f"{ENGINE_INFO}{INGEST_SUFFIX}"
"""Value of `commitInfo.engineInfo` in a pipeline's commits of records and offsets."""
