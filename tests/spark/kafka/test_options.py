from __future__ import annotations

import pytest

from bayou.errors import ArgumentError
from bayou.spark.kafka import TopicPartition
from bayou.spark.kafka.options import parse_options

_BROKERS = {"kafka.bootstrap.servers": "b:9092"}


def _parse(**options):
    selection = {} if {"assign", "subscribePattern"} & options.keys() else {"subscribe": "t"}
    return parse_options(_BROKERS | selection | options)


def test_defaults_are_those_of_sparks_source():
    options = _parse()
    assert options.batch_range() == ("earliest", "latest")
    assert options.stream_start() == "latest"
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_trigger_delay == 900
    assert options.timeout == 120
    assert options.planning_timeout == 30


def test_names_count_in_any_case():
    options = _parse(MAXOFFSETSPERTRIGGER="7", failondataloss="FALSE", IncludeHeaders="true")
    assert options.max_offsets_per_trigger == 7
    assert not options.fail_on_data_loss
    assert options.include_headers


def test_topics_are_named_listed_or_matched():
    assert _parse(subscribe=" a, b,a,").selection.topics == ("a", "b")
    assert _parse(subscribePattern="a.*").selection.pattern == "a.*"
    assert _parse(assign='{"a": [1]}').selection.partitions == (("a", 1),)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("15m", 900), ("2 h", 7200), ("250", 0.25)]
)
def test_the_trigger_delay_is_a_time_as_spark_writes_it(text, seconds):
    assert _parse(maxTriggerDelay=text).max_trigger_delay == seconds


def test_offsets_are_given_for_each_partition():
    options = _parse(startingOffsets='{"t": {"0": 5, "1": -2}}', endingOffsets='{"t": {"0": -1}}')
    assert options.batch_range() == (
        {TopicPartition("t", 0): 5, TopicPartition("t", 1): -2},
        {TopicPartition("t", 0): -1},
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribePattern": "("}, "isn't a regular expression"),
        ({"subscribe": ","}, "contains no topic"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "subscribe and assign are set"),
        ({"startingOffsets": "first"}, "must be earliest, latest, or JSON"),
        ({"maxOffsetsPerTrigger": "0"}, "must be a positive integer"),
        ({"minPartitions": "two"}, "must be a positive integer"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"maxTriggerDelay": "soon"}, "must be a duration such as"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is higher than"),
        ({"maxOffsetPerTrigger": "8"}, "Did you mean maxOffsetsPerTrigger"),
        ({"bootstrap.servers": "b"}, r"Did you mean kafka\.bootstrap\.servers"),
        ({"startingTimestamp": "yesterday"}, "must be a timestamp in milliseconds"),
        ({"endingOffsetsByTimestamp": '{"t": 5}'}, "milliseconds since the epoch for each"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "milliseconds since the epoch for"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "must be error or latest"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_write(options, message):
    with pytest.raises(ArgumentError, match=message):
        _parse(**options)


def test_a_selection_is_required():
    with pytest.raises(ArgumentError, match="none is set"):
        parse_options(_BROKERS)


@pytest.mark.parametrize("position", ["latest", '{"t": {"0": -1}}'])
def test_a_batch_query_cannot_start_at_the_end(position):
    with pytest.raises(ArgumentError, match=r"can't be latest"):
        _parse(startingOffsets=position).batch_range()


@pytest.mark.parametrize("position", ["earliest", '{"t": {"0": -2}}'])
def test_a_batch_query_cannot_end_at_the_start(position):
    with pytest.raises(ArgumentError, match=r"can't be earliest"):
        _parse(endingOffsets=position).batch_range()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("endingOffsets", "latest"),
        ("endingTimestamp", "1"),
        ("endingOffsetsByTimestamp", '{"t": {"0": 1}}'),
    ],
)
def test_a_stream_has_no_end(name, value):
    with pytest.raises(ArgumentError, match=f"Option {name} isn't valid .*availableNow"):
        _parse(**{name: value}).stream_start()


def test_secrets_are_not_in_the_representation():
    assert "sesame" not in repr(_parse(**{"kafka.sasl.password": "sesame"}))
