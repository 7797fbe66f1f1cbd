"""One Spark session for all tests of a worker process, because a start takes six seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

_CONF = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}


class _SharedSession:
    """The session, and the settings that it has at the start of every test."""

    def __init__(self) -> None:
        self.spark: Any = None
        self._settings: dict[str, str] = {}
        self._hash = 0

    def start(self, warehouse: str) -> Any:
        """Start the session; `warehouse` is the folder of managed tables."""
        from bayou.spark import start_session

        conf = {**_CONF, "spark.sql.warehouse.dir": warehouse}
        self.spark = start_session("bayou-tests", conf, master="local[2]", time_zone="UTC")
        self._settings = self._read()
        self._hash = self._java_settings().hashCode()
        return self.spark

    def stop(self) -> None:
        """Stop the session."""
        self.spark.stop()
        self.spark = None

    def restore(self) -> list[str]:
        """Restore the settings; return the names of settings that a test had changed."""
        if self.spark is None or self._java_settings().hashCode() == self._hash:
            return []
        settings = self._read()
        for key in settings.keys() - self._settings.keys():
            self.spark.conf.unset(key)
        for key, value in self._settings.items():
            if settings.get(key) != value:
                self.spark.conf.set(key, value)
        names = settings.keys() | self._settings.keys()
        return sorted(n for n in names if settings.get(n) != self._settings.get(n))

    def _java_settings(self) -> Any:
        return self.spark._jsparkSession.sessionState().conf().settings()

    def _read(self) -> dict[str, str]:
        return dict(self.spark.conf.getAll)


_shared = _SharedSession()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A classic session with two threads, UTC, and Bayou enabled. Tests must restore settings."""
    yield _shared.start(str(tmp_path_factory.mktemp("warehouse")))
    _shared.stop()


@pytest.fixture
def session_for_examples(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The shared session, which `bayou.spark.start_session` returns during the test."""
    import bayou.spark

    monkeypatch.setattr(bayou.spark, "start_session", lambda *_, **__: spark)
    return spark


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that leaves settings changed, and restore them for the next tests."""
    result = yield
    if "spark" in getattr(item, "fixturenames", ()):
        changed = _shared.restore()
        if changed:
            pytest.fail(f"{item.nodeid} leaves settings of the session changed: {changed}")
    return result
