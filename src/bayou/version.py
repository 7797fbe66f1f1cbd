"""The version of the package, and the engine info of its commits."""

VERSION = "0.1.0"
"""The version; `pyproject.toml` has the same."""

ENGINE_INFO = f"bayou/{VERSION}"
"""Value of `commitInfo.engineInfo` in Bayou's commits."""

INGEST_SUFFIX = " (ingest)"
"""End of the engine info of commits with a pipeline's records."""

INGEST_ENGINE_INFO = f"{ENGINE_INFO}{INGEST_SUFFIX}"
"""Value of `commitInfo.engineInfo` in commits with a pipeline's records."""
