"""The version of the package, and the engine info of its commits."""

VERSION = "0.1.0"
"""The version; `pyproject.toml` has the same."""

ENGINE_INFO = f"bayou/{VERSION}"
"""Value of `commitInfo.engineInfo` in Bayou's commits."""
