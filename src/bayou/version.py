"""The version of the package, and how commits name it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["ENGINE_INFO", "VERSION"]


def _installed() -> str:
    try:
        return version("bayou")
    except PackageNotFoundError:  # run from a source tree that isn't installed
        return "0.0.0"


VERSION = _installed()
ENGINE_INFO = f"bayou/{VERSION}"
"""`commitInfo.engineInfo`."""
