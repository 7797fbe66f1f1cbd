"""The version of Bayou, and `engineInfo` of its commits."""

VERSION = "0.1.0"
"""The version of Bayou. It must be equal to the version in `pyproject.toml`."""

ENGINE_INFO = f"bayou/{VERSION}"
"""Default value of `commitInfo.engineInfo`. Commits of Spark and of pipelines add a suffix."""

INGEST_SUFFIX = " (ingest)"
"""Suffix of `INGEST_ENGINE_INFO`."""

INGEST_ENGINE_INFO = f"{ENGINE_INFO}{INGEST_SUFFIX}"
"""Value of `commitInfo.engineInfo` in commits with which pipelines write records and offsets."""
