from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.errors import ArgumentError
from bayou.spark.kafka import TopicPartition, format_offsets, parse_offsets
from bayou.spark.kafka.offsets import offsets_from_json, offsets_to_json, parse_partitions

_partitions = st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 10_000))
_offsets = st.dictionaries(_partitions, st.integers(-2, 2**63 - 1))


@given(_offsets)
def test_offsets_survive_the_way_through_text(offsets):
    assert parse_offsets(format_offsets(offsets)) == offsets
    assert offsets_from_json(offsets_to_json(offsets)) == offsets


@given(_offsets)
def test_equal_offsets_are_equal_text_whatever_their_order(offsets):
    assert format_offsets(dict(reversed(offsets.items()))) == format_offsets(offsets)


def test_partitions_stand_in_the_order_of_their_numbers():
    offsets = {TopicPartition("t", 10): 1, TopicPartition("t", 9): 2}
    assert format_offsets(offsets) == '{"t": {"9": 2, "10": 1}}'


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"t": 1}', '{"t": {"a": 1}}', '{"t": {"0": "1"}}', '{"t": {"0": -3}}',
     '{"t": {"0": true}}', '{"t": {"0": 1.5}}', '{"t": {"-1": 1}}'],
)  # fmt: skip
def test_what_is_not_offsets_is_refused_by_the_name_of_the_option(text):
    with pytest.raises(ArgumentError, match="Option endingOffsets"):
        parse_offsets(text, "endingOffsets")


def test_assigned_partitions_are_sorted_and_single():
    assert parse_partitions('{"b": [1, 0, 1], "a": [2]}') == (("a", 2), ("b", 0), ("b", 1))


@pytest.mark.parametrize(
    "text", ["{}", '{"t": []}', '{"t": ["0"]}', '{"t": 0}', "[0]", '{"t": [-1]}']
)
def test_what_is_not_partitions_is_refused(text):
    with pytest.raises(ArgumentError, match="Option assign"):
        parse_partitions(text)
