"""The error for an optional package that isn't installed."""

from __future__ import annotations

from bayou.errors import PrerequisiteError


def missing_extra(extra: str, feature: str) -> PrerequisiteError:
    """Return the error that a feature needs the package of the extra with the same name."""
    return PrerequisiteError(
        f"{feature}: the Python package {extra!r} isn't installed. Install it with: "
        f"pip install 'bayou[{extra}]'.",
        what=extra,
    )
