"""PROTOCOL.md, Change Data Files and Add CDC File."""

from __future__ import annotations

import pytest

from bayou.protocol.actions import CHANGE_COLUMNS, is_change_data_feed_enabled, reserved_columns
from bayou.protocol.schema import LONG, StructField, StructType


def test_the_feeds_columns_are_those_that_the_protocol_names():
    assert str(CHANGE_COLUMNS) == (
        "struct<_change_type:string,_commit_version:long,_commit_timestamp:timestamp>"
    )


@pytest.mark.parametrize(
    ("text", "enabled"), [("true", True), ("TRUE ", True), ("false", False), ("", False)]
)
def test_a_table_property_turns_the_feed_on(text, enabled):
    assert is_change_data_feed_enabled({"delta.enableChangeDataFeed": text}) is enabled


def test_without_the_property_the_feed_is_off():
    assert not is_change_data_feed_enabled({})


def test_only_top_level_columns_of_these_names_are_reserved_in_any_case():
    inner = StructType((StructField(name="_change_type", data_type=LONG),))
    schema = StructType(
        (
            StructField(name="s", data_type=inner),
            StructField(name="_Change_Type", data_type=LONG),
            StructField(name="_commit_version", data_type=LONG),
        )
    )
    assert reserved_columns(schema) == ("_Change_Type", "_commit_version")
