"""Hypothesis profiles: the number of examples that each tier of the tests draws.

`pytest --hypothesis-profile NAME` chooses one; `make test-unit` runs `unit`, `make test` runs
`quick`, `make test-all` runs `full`, and `make nightly` runs `nightly`.
"""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_FULL = 100
_PROFILES = {"unit": 10, "quick": 20, "full": _FULL, "nightly": 10 * _FULL}
_LEAST = 3

for _name, _count in _PROFILES.items():
    # No test asserts a time, so no example has a deadline.
    settings.register_profile(_name, max_examples=_count, deadline=None)
settings.load_profile("quick")


def examples(full: int) -> int:
    """Number of examples in the current profile for a test that draws `full` in `make test-all`.

    Pass it to `@settings(max_examples=examples(60))`: a fixed number would ignore the profile.
    """
    return max(min(full, _LEAST), full * settings.default.max_examples // _FULL)
