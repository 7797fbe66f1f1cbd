"""The error for an optional package that isn't installed."""

from __future__ import annotations

from bayou.errors import PrerequisiteError


def missing_extra(extra: str, feature: str) -> PrerequisiteError:
    """Return the error for an optional package that isn't installed.

    Args:
        extra: name of the package, which is also the name of the pip extra that installs it.
        feature: the feature that needs the package, for the message.
    """
    return PrerequisiteError(
        f"{feature}: the Python package {extra!r} isn't installed. Install it with: "
        f"pip install 'bayou[{extra}]'.",
        what=extra,
    )
