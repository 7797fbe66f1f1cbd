"""A new stream without anything to read waits, where the driver's process can tell Spark so."""

from __future__ import annotations

import threading

from bayou.spark.streaming.driver_files import ALIVE, FAILED
from bayou.spark.streaming.starting_version import STARTED, set_start_offset, waiting_streams


def answered(shared, answer):
    """Whether a stream waits, where the driver's process answers it."""

    def driver():
        while not (found := waiting_streams(shared)):
            pass
        told.extend(found)
        (found[0].folder / answer).touch()

    told: list = []
    thread = threading.Thread(target=driver)
    thread.start()
    waits = set_start_offset(shared, '{"index":-1}')
    thread.join()
    assert [w.offset for w in told] == ['{"index":-1}']
    return waits


def test_nobody_is_waited_for_who_shows_no_life(tmp_path):
    assert not set_start_offset(None, "{}")
    assert not set_start_offset(tmp_path, "{}")
    assert waiting_streams(tmp_path) == []


def test_a_stream_waits_where_spark_was_told_where_it_begins(tmp_path):
    (tmp_path / ALIVE).touch()
    assert answered(tmp_path, STARTED)


def test_a_stream_goes_on_where_spark_can_not_be_told(tmp_path):
    (tmp_path / ALIVE).touch()
    assert not answered(tmp_path, FAILED)
