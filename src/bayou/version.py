"""The version of the package, and the engine info of its commits."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("bayou")
    except PackageNotFoundError:  # a source tree without an installed package
        return "0.0.0"


VERSION = _installed()
ENGINE_INFO = f"bayou/{VERSION}"
"""Value of `commitInfo.engineInfo` in Bayou's commits."""
