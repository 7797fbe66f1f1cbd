"""Where a run begins, and what a micro-batch covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayou.errors import PipelineError
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    batch_end,
    check_not_recreated,
    next_offsets,
    ranges_between,
    starting_offsets,
)

TOPIC = KafkaTopic(
    name="events",
    cluster_id="cluster",
    topic_id=None,
    bounds={0: OffsetSpan(start=0, end=10), 1: OffsetSpan(start=5, end=20)},
)


def test_an_application_id_names_cluster_topic_and_partition():
    assert app_id(TOPIC, 1) == "kafka/cluster/events/-/1"


def test_the_next_offset_follows_the_last_that_is_covered():
    transactions = {app_id(TOPIC, 0): 7, "somebody else": 99}
    assert next_offsets(TOPIC, transactions) == {0: 8}


def test_an_empty_table_begins_where_the_configuration_says():
    assert starting_offsets(TOPIC, {}, "earliest", key="k") == {0: 0, 1: 5}
    assert starting_offsets(TOPIC, {}, "latest", key="k") == {0: 10, 1: 20}


def test_a_partition_that_came_later_is_read_from_its_first_record():
    assert starting_offsets(TOPIC, {0: 8}, "latest", key="k") == {0: 8, 1: 5}


def test_a_topic_that_ends_before_the_table_is_an_error():
    with pytest.raises(PipelineError, match="deleted and recreated"):
        starting_offsets(TOPIC, {0: 11}, "earliest", key="k")


def test_a_topic_with_another_id_than_the_tables_is_an_error():
    old, new = replace(TOPIC, topic_id="old/+x"), replace(TOPIC, topic_id="new/y")
    transactions = {app_id(old, 0): 7, "somebody else": 1}
    check_not_recreated(old, transactions, key="k")
    check_not_recreated(new, {"somebody else": 1, app_id(TOPIC, 0): 7}, key="k")
    check_not_recreated(replace(new, name="event"), transactions, key="k")
    with pytest.raises(PipelineError, match=r"its id was old/\+x, now it is new/y"):
        check_not_recreated(new, transactions, key="k")


def test_offsets_that_retention_took_are_an_error():
    with pytest.raises(PipelineError, match="offsets 3 to 4 were removed"):
        starting_offsets(TOPIC, {1: 3}, "earliest", key="k")


def test_the_end_of_a_batch_stands_in_sparks_offset_log(tmp_path):
    log = tmp_path / "offsets"
    log.mkdir()
    (log / "3").write_text('v1\n{"batchTimestampMs":1}\n{"events":{"0":8,"1":20}}')
    assert batch_end(tmp_path, 3, "events", key="k") == {0: 8, 1: 20}


@pytest.mark.parametrize("text", [None, "", "v1\n{}", "v1\n{}\n-", 'v1\n{}\n{"other":{}}'])
def test_an_offset_log_that_cannot_be_read_stops_the_topic(tmp_path, text):
    (tmp_path / "offsets").mkdir()
    if text is not None:
        (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(PipelineError, match="micro-batch 0"):
        batch_end(tmp_path, 0, "events", key="k")


def test_partitions_without_new_offsets_have_no_range():
    ranges = ranges_between({0: 5, 1: 5}, {0: 5, 1: 9, 2: 3})
    assert ranges == {1: OffsetSpan(start=5, end=9), 2: OffsetSpan(start=0, end=3)}
