"""Where a run begins, and what a micro-batch covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayou.errors import KafkaError, PipelineError
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    check_not_recreated,
    lost_offsets,
    next_offsets,
    ranges_between,
    recorded_start,
    resume_positions,
    start_app_id,
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


def test_a_topic_id_with_a_slash_is_one_id():
    topic = replace(TOPIC, topic_id="R7K7QY70R/a+TfoBsmmFWw")
    assert next_offsets(topic, {app_id(topic, 0): 7}) == {0: 8}
    check_not_recreated(topic, {app_id(topic, 0): 7}, key="k")


def test_offsets_written_without_the_topics_id_count_when_it_is_known_and_the_other_way_round():
    known = replace(TOPIC, topic_id="id")
    assert next_offsets(known, {app_id(TOPIC, 0): 7}) == {0: 8}
    assert next_offsets(known, {app_id(TOPIC, 0): 7, app_id(known, 0): 9}) == {0: 10}
    assert next_offsets(TOPIC, {app_id(known, 0): 9}) == {0: 10}
    assert next_offsets(known, {app_id(replace(TOPIC, topic_id="other"), 0): 9}) == {}


def test_a_table_that_covers_nothing_begins_at_the_first_records():
    assert starting_offsets(TOPIC, {}, key="k") == {0: 0, 1: 5}


def recorded(covered, starts):
    """Transaction identifiers with the next offsets and the start offsets of `TOPIC`."""
    return {
        **{app_id(TOPIC, p): offset - 1 for p, offset in covered.items()},
        **{start_app_id(TOPIC, p): offset for p, offset in starts.items()},
    }


@pytest.mark.parametrize(
    ("covered", "migrated", "starts", "letter_starts", "expected"),
    [
        ({}, {}, {}, {}, {}),
        ({}, {}, {}, {0: 3, 1: 9}, {}),  # the first run, which `starting-offsets` decides
        ({0: 7}, {}, {}, {}, {0: 7}),
        ({0: 7}, {1: 11}, {}, {0: 3, 1: 9}, {0: 7, 1: 12}),
        ({}, {1: 11}, {}, {}, {1: 12}),
        ({0: 7}, {0: 2, 1: 11}, {}, {}, {0: 7, 1: 12}),
        ({0: 7}, {}, {}, {0: 3, 1: 9}, {0: 7, 1: 9}),
        ({0: 7}, {}, {0: 3, 1: 5}, {0: 3, 1: 9}, {0: 7, 1: 5}),
        ({0: 7}, {}, {0: 3}, {0: 3, 1: 9}, {0: 7, 1: 0}),  # partition 1 was created later
        ({}, {0: 8}, {1: 6}, {}, {0: 9, 1: 6}),
    ],
)
def test_a_run_resumes_after_covered_migrated_or_recorded_offsets(
    covered, migrated, starts, letter_starts, expected
):
    transactions, letters = recorded(covered, starts), recorded({}, letter_starts)
    assert resume_positions(TOPIC, transactions, letters, migrated) == expected


def test_where_a_first_run_began_is_no_offset_that_is_covered():
    transactions = {start_app_id(TOPIC, 0): 10, start_app_id(TOPIC, 1): 20}
    assert next_offsets(TOPIC, transactions) == {}
    assert recorded_start(TOPIC, transactions) == {0: 10, 1: 20}


def test_a_start_recorded_without_the_topics_id_counts_when_it_is_known_and_the_other_way_round():
    """Otherwise an upgrade of the brokers would forget that a topic started at its end."""
    known = replace(TOPIC, topic_id="id")
    assert recorded_start(known, {start_app_id(TOPIC, 0): 10}) == {0: 10}
    assert recorded_start(TOPIC, {start_app_id(known, 1): 20}) == {1: 20}
    both = {start_app_id(known, 0): 11, start_app_id(TOPIC, 0): 10}
    assert recorded_start(known, both) == {0: 11}
    other = replace(TOPIC, topic_id="other")
    assert recorded_start(known, {start_app_id(other, 0): 10}) == {}
    later = replace(TOPIC, bounds={0: TOPIC.bounds[0]})
    assert recorded_start(later, {start_app_id(TOPIC, 1): 20}) == {}


def test_a_partition_that_came_later_is_read_from_its_first_record():
    assert starting_offsets(TOPIC, {0: 8}, key="k") == {0: 8, 1: 5}


def test_a_partition_that_is_gone_is_an_error():
    with pytest.raises(PipelineError, match="this partition doesn't exist any more"):
        starting_offsets(TOPIC, {0: 8, 2: 1}, key="k")


def test_a_partition_that_a_topic_of_the_same_id_lacks_is_a_fault_of_the_brokers():
    known = replace(TOPIC, topic_id="id")
    with pytest.raises(KafkaError, match="report no partition 2"):
        starting_offsets(known, {0: 8, 2: 1}, key="k")


def test_offsets_of_another_cluster_are_an_error():
    with pytest.raises(PipelineError, match="from Kafka cluster"):
        check_not_recreated(replace(TOPIC, cluster_id="new"), {app_id(TOPIC, 0): 7}, key="k")


def test_a_topic_that_ends_before_the_table_is_an_error():
    with pytest.raises(PipelineError, match="deleted and recreated"):
        starting_offsets(TOPIC, {0: 11}, key="k")


def test_a_topic_with_another_id_than_the_tables_is_an_error():
    old, new = replace(TOPIC, topic_id="old/+x"), replace(TOPIC, topic_id="new/y")
    transactions = {app_id(old, 0): 7, "somebody else": 1}
    check_not_recreated(old, transactions, key="k")
    check_not_recreated(new, {"somebody else": 1, app_id(TOPIC, 0): 7}, key="k")
    check_not_recreated(replace(new, name="event"), transactions, key="k")
    with pytest.raises(PipelineError, match=r"id was old/\+x and is now new/y"):
        check_not_recreated(new, transactions, key="k")


def test_offsets_that_retention_took_are_an_error():
    with pytest.raises(PipelineError, match=r"offsets 3 to 4 were removed.*on-data-loss: continue"):
        starting_offsets(TOPIC, {1: 3}, key="k")


def test_offsets_that_retention_took_are_those_below_the_first_that_is_there():
    assert lost_offsets(TOPIC, {1: 3}) == {1: OffsetSpan(start=3, end=5)}
    assert lost_offsets(TOPIC, {0: 3, 1: 5}) == {}
    assert lost_offsets(TOPIC, {}) == {}


def test_partitions_without_new_offsets_have_no_range():
    ranges = ranges_between({0: 5, 1: 5}, {0: 5, 1: 9, 2: 3})
    assert ranges == {1: OffsetSpan(start=5, end=9), 2: OffsetSpan(start=0, end=3)}
