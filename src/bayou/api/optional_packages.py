"""The error for an optional package that isn't installed."""

from __future__ import annotations

from bayou.errors import PrerequisiteError


def missing_extra(extra: str, feature: str) -> PrerequisiteError:
    """Return the error for a missing package, which the pip extra of the same name installs."""
    return PrerequisiteError(
        f"{feature}: the Python package {extra!r} isn't installed. Install it with: "
        f"pip install 'bayou[{extra}]'.",
        what=extra,
    )
