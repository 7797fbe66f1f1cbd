"""What a worker needs to write files for a transaction."""

from __future__ import annotations

import pytest

from bayou.errors import SerializationError
from bayou.kernel import TransactionState
from bayou.protocol.schema import LONG, STRING, VOID, ArrayType, DataType, StructField, StructType


def schema(**columns: DataType) -> StructType:
    return StructType(tuple(StructField(name=n, data_type=t) for n, t in columns.items()))


def state(**configuration: str) -> TransactionState:
    return TransactionState(
        table="/lake/t",
        schema=schema(
            day=STRING,
            a=LONG,
            s=schema(x=LONG, y=schema(z=STRING)),
            l=ArrayType(element_type=LONG, contains_null=True),
            nothing=VOID,
        ),
        partition_columns=("day",),
        configuration={f"delta.{k}": v for k, v in configuration.items()},
    )


def test_a_state_comes_back_from_its_bytes():
    before = state(appendOnly="true")
    assert TransactionState.from_bytes(before.to_bytes()) == before


def test_bytes_that_are_no_state_are_refused():
    with pytest.raises(SerializationError, match="aren't a transaction state"):
        TransactionState.from_bytes(b"nonsense")


def test_partition_columns_and_void_ones_are_not_in_data_files():
    assert state().data_schema.names == ("a", "s", "l")


def test_the_first_leaves_have_statistics():
    assert state().statistics_columns() == ("a", "s.x", "s.y.z", "l")
    assert state(dataSkippingNumIndexedCols="2").statistics_columns() == ("a", "s.x")
    assert state(dataSkippingNumIndexedCols="0").statistics_columns() == ()
    assert state(dataSkippingNumIndexedCols="-1").statistics_columns() == ("a", "s.x", "s.y.z", "l")


def test_columns_named_for_statistics_go_before_their_number():
    named = state(dataSkippingStatsColumns="s.y,`a`", dataSkippingNumIndexedCols="1")
    assert named.statistics_columns() == ("s.y", "a")


def test_columns_named_for_statistics_are_found_in_any_case():
    assert state(dataSkippingStatsColumns="S.Y,`A`").statistics_columns() == ("s.y", "a")


def test_parquet_is_written_as_the_table_says():
    assert state().parquet_options.compression == "zstd"
    options = state(
        **{
            "parquet.compression.codec": "snappy",
            "targetFileSize": "1mb",
            "dataSkippingStringPrefixLength": "8",
        }
    ).parquet_options
    assert options.string_prefix_length == 8
    assert (options.compression, options.target_file_size) == ("snappy", 1024 * 1024)
