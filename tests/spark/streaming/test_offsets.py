import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.errors import ArgumentError, StreamingSourceError
from bayou.spark.streaming.offsets import (
    BASE_INDEX,
    END_INDEX,
    METADATA_CHANGE_INDEX,
    POST_METADATA_CHANGE_INDEX,
    SourceOffset,
)

indexes = st.one_of(
    st.sampled_from([BASE_INDEX, METADATA_CHANGE_INDEX, POST_METADATA_CHANGE_INDEX]),
    st.integers(0, 10**12),
)
offsets = st.builds(
    SourceOffset,
    table_id=st.just("t"),
    version=st.integers(0, 10**12),
    index=indexes,
    initial=st.booleans(),
)


def parse(text):
    return SourceOffset.from_json(json.loads(text), table_id="t", table="/tables/t")


def test_an_offset_reads_as_delta_spark_writes_it():
    offset = SourceOffset(table_id="t", version=3, index=7, initial=True)
    assert json.dumps(offset.to_json(), separators=(",", ":")) == (
        '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":3,"index":7,'
        '"isStartingVersion":true}'
    )


@given(offsets)
def test_json_and_back_is_the_same(offset):
    assert parse(json.dumps(offset.to_json())) == offset


def test_before_the_first_file_is_minus_one_and_a_change_of_metadata_has_a_format_of_its_own():
    assert SourceOffset(table_id="t", version=3).to_json()["index"] == -1
    change = SourceOffset(table_id="t", version=3, index=METADATA_CHANGE_INDEX).to_json()
    assert (change["sourceVersion"], change["index"]) == (3, -20)


def test_behind_the_end_of_a_version_is_before_the_next_one():
    start = SourceOffset(table_id="t", version=3, index=7, initial=True)
    assert start.advanced_to(3, 9) == SourceOffset(table_id="t", version=3, index=9, initial=True)
    assert start.advanced_to(3, END_INDEX) == SourceOffset(table_id="t", version=4)
    assert start.advanced_to(4, 0) == SourceOffset(table_id="t", version=4, index=0)


def test_the_offset_of_another_table_is_refused_with_both_ids():
    data = SourceOffset(table_id="other", version=3).to_json()
    with pytest.raises(StreamingSourceError, match="id is t, .*id other") as caught:
        SourceOffset.from_json(data, table_id="t", table="/tables/t")
    assert caught.value.condition == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ('{"events": {"0": 23}}', "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        ("5", "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        (
            '{"sourceVersion":4,"reservoirId":"t","reservoirVersion":3,"index":7}',
            "DELTA_INVALID_SOURCE_VERSION",
        ),
        (
            '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":"3","index":7}',
            "DELTA_INVALID_SOURCE_OFFSET_FORMAT",
        ),
    ],
)
def test_what_is_no_offset_of_a_delta_table_is_refused(text, condition):
    with pytest.raises(ArgumentError, match=condition):
        parse(text)
