from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.kernel.transaction import post_commit_hooks
from bayou.kernel.transaction.background_hooks import BackgroundHooks
from support.iceberg_tables import ICEBERG, assert_equal_formats


def test_hooks_run_in_another_thread_and_are_complete_at_the_end() -> None:
    threads: list[str] = []
    with BackgroundHooks() as hooks:
        hooks.submit("a", lambda: threads.append(threading.current_thread().name))
        hooks.submit("b", lambda: threads.append(threading.current_thread().name))
    assert threads == ["bayou-hooks"] * 2
    assert BackgroundHooks.current() is None


def test_a_waiting_hook_is_replaced_by_a_newer_one() -> None:
    started, continued = threading.Event(), threading.Event()
    ran: list[int] = []

    def block() -> None:
        started.set()
        continued.wait()

    with BackgroundHooks() as hooks:
        hooks.submit("first", block)
        started.wait()
        hooks.submit("table", lambda: ran.append(1))
        hooks.submit("table", lambda: ran.append(2))
        continued.set()
    assert ran == [2]


def test_a_commit_does_not_wait_for_its_iceberg_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    continued = threading.Event()
    convert = post_commit_hooks.convert

    def slow(*arguments: object, **options: object) -> object:
        continued.wait()
        return convert(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(post_commit_hooks, "convert", slow)
    path = tmp_path / "table"
    with BackgroundHooks():
        for version in range(3):
            rows = pa.table({"id": [version]})
            assert bayou.write(path, rows, configuration=ICEBERG) == version
        assert bayou.table(path).iceberg.lag() == 3
        continued.set()
    assert bayou.table(path).iceberg.lag() == 0
    assert_equal_formats(path)
