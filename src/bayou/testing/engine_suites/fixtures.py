"""The fixtures of the test suites."""

from __future__ import annotations

import pytest

from bayou.kernel.engine import Engine


class HandlerSuite:
    """Base class of the suites. To test an engine, subclass a suite and define the fixtures."""

    @pytest.fixture
    def engine(self) -> Engine:
        """The engine under test."""
        raise NotImplementedError("define a fixture `engine` that returns the engine")

    @pytest.fixture
    def root(self) -> str:
        """A folder to which the engine can write. The folder is empty or doesn't exist yet."""
        raise NotImplementedError("define a fixture `root` that returns an empty folder")
