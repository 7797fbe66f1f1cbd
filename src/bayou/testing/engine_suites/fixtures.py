"""What a suite asks of the engine under test."""

from __future__ import annotations

import pytest

from bayou.kernel.engine import Engine

__all__ = ["HandlerSuite"]


class HandlerSuite:
    """Base of the suites: the fixtures that a subclass gives."""

    @pytest.fixture
    def engine(self) -> Engine:
        """The engine under test."""
        raise NotImplementedError("give a fixture `engine` that returns your engine")

    @pytest.fixture
    def root(self) -> str:
        """A path that the engine can write below, empty at first; its folder may be missing."""
        raise NotImplementedError("give a fixture `root` that returns an empty place to write to")
