from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan, parse_partition_values
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    tuple(
        StructField(name=name, data_type=data_type)
        for name, data_type in {
            "l": LONG,
            "by": BYTE,
            "f": FLOAT,
            "d": DOUBLE,
            "dec": DecimalType(38, 18),
            "s": STRING,
            "b": BOOLEAN,
            "bin": BINARY,
            "da": DATE,
            "ts": TIMESTAMP,
            "ntz": TIMESTAMP_NTZ,
            "a": ArrayType(element_type=LONG),
            "n": StructType(
                (StructField(name="x", data_type=LONG), StructField(name="y", data_type=STRING))
            ),
            "p": STRING,
            "q": DATE,
        }.items()
    )
)
PARTITIONS = ("q", "p")


def plan_for(text, schema=SCHEMA):
    return SkippingPlan.build(resolve(parse_predicate(text), schema), schema, PARTITIONS)


def keeps(text, stats, *, schema=SCHEMA, **partition):
    """Whether one file with these statistics (JSON text, object or None) is kept."""
    plan = plan_for(text, schema)
    if isinstance(stats, dict):
        stats = json.dumps(stats)
    parsed = None
    if plan.stats_schema is not None:
        parsed = ArrowEngine().json.parse_json(pa.array([stats], pa.string()), plan.stats_schema)
    values = {
        name: parse_partition_values(
            pa.array([partition[name]], pa.string()), schema.get(name).data_type
        )
        for name in plan.partition_columns
    }
    return plan.select(values, parsed, num_rows=1).to_pylist() == [True]


def decimal_bounds(text):
    """Statistics of a file whose only value of `dec` is written so."""
    return (
        f'{{"numRecords":1,"minValues":{{"dec":{text}}},"maxValues":{{"dec":{text}}},'
        '"nullCount":{"dec":0}}'
    )


def bounds(column, low, high, *, nulls=0, rows=10):
    return {
        "numRecords": rows,
        "minValues": {column: low},
        "maxValues": {column: high},
        "nullCount": {column: nulls},
    }


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("l = 5", True),
        ("l = 4", False),
        ("l < 5", False),
        ("l <= 5", True),
        ("l > 8", False),
        ("l >= 8", True),
        ("l <> 5", True),
        ("l <=> 9", False),
        ("9 > l", True),
        ("l IN (1, 2, 9)", False),
        ("l IN (1, 6)", True),
        ("l NOT IN (5, 6)", True),
        ("l BETWEEN 1 AND 4", False),
        ("l NOT BETWEEN 5 AND 8", False),
        ("l NOT BETWEEN 6 AND 8", True),
        ("l IS NULL", False),
        ("l IS NOT NULL", True),
        ("l = NULL", False),
        ("l <=> NULL", False),
        ("(l = 7) IS NULL", False),
        ("NOT (l > 4)", False),
        ("NOT (l = 4 OR l >= 5)", False),
        ("NOT (l < 5 AND l > 8)", True),
        ("l = 4 OR l = 7", True),
        ("l = 4 AND l = 7", False),
        ("l < 4.5", False),
        ("l = 6.5", False),
        ("l > 8e0", False),
        ("l < 99999999999999999999", True),
        ("l > 99999999999999999999", False),
        ("l <> l", False),
        ("l = l", True),
        ("true", True),
        ("false", False),
        ("NULL", False),
        ("l = 4 IS NOT TRUE", True),
        ("l = 4 IS TRUE", False),
    ],
)
def test_a_file_with_5_to_8_is_kept_where_a_row_may_match(text, kept):
    assert keeps(text, bounds("l", 5, 8)) is kept


def test_a_file_of_one_value_is_told_from_others():
    one = bounds("l", 5, 5)
    assert not keeps("l <> 5", one)
    assert not keeps("l NOT IN (4, 5)", one)
    assert not keeps("NOT (l <=> 5)", one)
    assert keeps("NOT (l <=> 5)", bounds("l", 5, 5, nulls=1))


def test_null_counts_decide_about_nulls():
    some, every = bounds("l", 5, 8, nulls=3), bounds("l", None, None, nulls=10)
    assert keeps("l IS NULL", some)
    assert keeps("l IS NOT NULL", some)
    assert keeps("l <=> NULL", some)
    assert keeps("(l < 1) IS NULL", some)
    assert keeps("l IS NULL", every)
    assert not keeps("l IS NOT NULL", every)
    assert not keeps("l = 5", every)
    assert not keeps("l <> 5", every)
    assert not keeps("NOT (l = 5)", every)
    assert not keeps("l NOT IN (1, NULL)", some)


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "{}",
        '{"numRecords":10}',
        '{"numRecords":10,"minValues":{},"maxValues":{},"nullCount":{}}',
        '{"numRecords":10,"minValues":{"l":"x"},"maxValues":{"l":true},"nullCount":{"l":"x"}}',
        '{"minValues":null,"maxValues":[],"nullCount":7}',
    ],
)
@pytest.mark.parametrize("text", ["l = 5", "l <> 5", "NOT (l < 5)", "l IS NULL", "l IS NOT NULL"])
def test_missing_or_unusable_statistics_keep_the_file(text, stats):
    assert keeps(text, stats)


def test_one_bound_alone_is_used():
    assert not keeps("l < 5", {"numRecords": 1, "minValues": {"l": 5}})
    assert keeps("l > 5", {"numRecords": 1, "minValues": {"l": 5}})


def test_a_maximum_of_a_timestamp_is_cut_to_milliseconds():
    stats = bounds("ts", "2024-01-01T00:00:00.001Z", "2024-01-01T00:00:00.009Z")
    assert keeps("ts = TIMESTAMP'2024-01-01 00:00:00.009823'", stats)
    assert keeps("ts > TIMESTAMP'2024-01-01 00:00:00.0095'", stats)
    assert not keeps("ts > TIMESTAMP'2024-01-01 00:00:00.0101'", stats)
    assert not keeps("ts < TIMESTAMP'2024-01-01 00:00:00.001'", stats)


def test_the_end_of_time_doesnt_overflow():
    stats = bounds("ts", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z")
    assert keeps("ts = TIMESTAMP'9999-12-31 23:59:59.999999'", stats)


def test_offsets_in_timestamps_are_those_of_old_writers():
    stats = bounds("ts", "2015-01-01T00:00:00.000-08:00", "2015-01-02T00:00:00.000-08:00")
    assert not keeps("ts < TIMESTAMP'2015-01-01 08:00:00'", stats)
    assert keeps("ts <= TIMESTAMP'2015-01-01 08:00:00'", stats)


def test_months_that_are_added_to_timestamps_skip_no_file():
    # Both timestamps move to February 29, and the later one to the earlier time of day.
    stats = bounds("ts", "2024-01-30T23:00:00.000Z", "2024-01-31T01:00:00.000Z")
    assert keeps("ts + INTERVAL 1 MONTH < TIMESTAMP'2024-02-29 02:00:00'", stats)
    assert keeps("ts + INTERVAL 1 MONTH > TIMESTAMP'2024-02-29 22:00:00'", stats)
    assert not keeps("ts + INTERVAL 30 DAYS < TIMESTAMP'2024-02-29 02:00:00'", stats)
    dates = bounds("da", "2024-01-30", "2024-01-31")
    assert not keeps("da + INTERVAL 1 MONTH < DATE'2024-02-29'", dates)


def test_a_timestamp_without_zone_may_end_in_z():
    for ending in ("", "Z"):
        text = f"2024-03-31T02:30:00.000{ending}"
        stats = bounds("ntz", text, text)
        assert keeps("ntz = TIMESTAMP_NTZ'2024-03-31 02:30:00.0005'", stats)
        assert not keeps("ntz < TIMESTAMP_NTZ'2024-03-31 02:30:00'", stats)


def test_a_timestamp_that_cant_be_read_keeps_the_file():
    assert keeps("ts = '2024-01-01'", bounds("ts", "+12345-01-01T00:00:00.000Z", "soon"))


def test_dates_are_bounds():
    stats = bounds("da", "2024-01-05", "2024-01-07")
    assert not keeps("da < DATE'2024-01-05'", stats)
    assert not keeps("da > '2024-01-07'", stats)
    assert keeps("da = '2024-01-06'", stats)
    assert not keeps("da > TIMESTAMP'2024-01-07 00:00:00'", stats)


def test_a_truncated_string_is_a_bound_all_the_same():
    stats = bounds("s", "a" * 32, "a" * 32 + "\U0010ffff")
    assert keeps(f"s = '{'a' * 40}'", stats)
    assert keeps(f"s <> '{'a' * 40}'", stats)
    assert keeps(f"s LIKE '{'a' * 35}%'", stats)
    assert not keeps("s = 'b'", stats)


@pytest.mark.parametrize(
    ("prefix", "kept"),
    [
        ("b", True),
        ("", True),
        ("be", True),
        ("bz", False),
        ("a", False),
        ("c", False),
        ("ba", True),
    ],
)
def test_a_prefix_is_an_interval(prefix, kept):
    assert keeps(f"startswith(s, '{prefix}')", bounds("s", "bar", "bx")) is kept


def test_a_file_that_has_the_prefix_all_over_is_dropped_by_its_negation():
    assert not keeps("NOT startswith(s, 'b')", bounds("s", "bar", "bx"))
    assert keeps("NOT startswith(s, 'ba')", bounds("s", "bar", "bx"))
    assert keeps("s NOT LIKE 'b%'", bounds("s", "bar", "c"))


def test_a_function_of_a_partition_column_is_an_operand_that_may_be_null():
    assert keeps("(upper(p) = s) IS NULL", bounds("s", "a", "b", nulls=1), p="a")
    assert keeps("(upper(p) = s) <=> NULL", bounds("s", "a", "b"), p=None)
    assert not keeps("(upper(p) = s) IS NULL", bounds("s", "a", "b"), p="a")


def test_an_escape_character_that_is_a_wildcard_is_no_wildcard():
    stats = bounds("s", "abc", "abd")
    assert keeps("s NOT LIKE 'a%%' ESCAPE '%'", stats)  # the pattern is the string `a%`
    assert keeps("s NOT LIKE '%%' ESCAPE '%'", stats)
    assert keeps("s LIKE 'ab_' ESCAPE '%'", stats)
    assert not keeps("s LIKE 'x%%' ESCAPE '%'", stats)


def test_nan_is_above_all():
    every = bounds("d", "NaN", "NaN")
    assert keeps("d > 4", every)
    assert not keeps("d < 4", every)
    assert keeps("isnan(d)", every)
    some = bounds("d", 1.0, "NaN")
    assert keeps("d > 1e308", some)
    assert not keeps("d < 1", some)


def test_isnan_searches_files_whose_bounds_omit_nan():
    without_nan = bounds("d", 1.0, 2.0)  # as deltalake writes them
    assert keeps("isnan(d)", without_nan)
    assert keeps("isnan(d + 1)", without_nan)
    assert keeps("NOT isnan(d)", bounds("d", "NaN", "NaN"))
    assert not keeps("d = DOUBLE('NaN')", without_nan)


def test_whole_numbers_of_nan_are_zero():
    stats = {"numRecords": 2, "minValues": {"d": 5.0}, "nullCount": {"d": 0}}
    assert keeps("floor(d) = 0", stats)
    assert keeps("ceil(d) < 1", stats)


@pytest.mark.parametrize("value", ["77569592.21", "3442101.01", "-76825083.10"])
def test_decimals_are_rounded_to_doubles_as_their_rows_are(value):
    """Arrow's cast of decimals to doubles is one off for some of them."""
    schema = StructType((StructField(name="m", data_type=DecimalType(10, 2)),))
    stats = (
        f'{{"numRecords":1,"minValues":{{"m":{value}}},"maxValues":{{"m":{value}}},'
        '"nullCount":{"m":0}}'
    )
    for op in ("=", "<=", ">=", "<=>"):
        for operand in ("m", "m + 0"):
            assert keeps(f"{operand} {op} CAST('{value}' AS DOUBLE)", stats, schema=schema)


def test_a_bound_of_whole_numbers_that_no_double_is_can_be_compared_with_one():
    stats = bounds("l", -(2**62) - 1, 2**62 + 1)
    assert keeps("l div 2 = CAST(2.5 AS DOUBLE)", stats)
    assert not keeps("l div 2 > CAST(5e18 AS DOUBLE)", stats)


@pytest.mark.parametrize("cut", ["\\ud83d", "a\\uDE00", "\ufffd", "\\ufffd"])
def test_a_bound_that_was_cut_within_a_character_says_nothing(cut):
    stats = (
        f'{{"numRecords":1,"minValues":{{"s":"{cut}","l":5}},"maxValues":{{"s":"{cut}","l":5}},'
        '"nullCount":{"s":0,"l":0}}'
    )
    for text in ("s < 'a'", "s > '\U0010ffff'", "s = 'b'", "s LIKE 'x%'"):
        assert keeps(text, stats)
    assert not keeps("l = 4 AND s = 'b'", stats)
    assert not keeps("s IS NULL", stats)


def test_nan_as_minimum_only_is_no_bound():
    assert keeps("d < 4", bounds("d", "NaN", 5.0))


def test_a_missing_maximum_may_hide_nan():
    assert keeps("d > 4", {"numRecords": 2, "minValues": {"d": 1.0}, "nullCount": {"d": 0}})


def test_zeros_of_both_signs_are_one():
    stats = bounds("d", -0.0, -0.0)
    assert keeps("d = 0", stats)
    assert keeps("d >= 0", stats)
    assert not keeps("d > 0", stats)


def test_the_text_of_a_float_stands_for_its_neighbour():
    stats = bounds("f", 0.1, 0.1)
    assert keeps("f > 0.1D", stats)
    assert not keeps("f = 0.1D", stats)
    assert not keeps("f < 0.1D", stats)


def test_after_float_became_double_old_bounds_are_floats_texts():
    changes = [{"fromType": "float", "toType": "double"}]
    schema = StructType(
        (
            StructField(name="d", data_type=DOUBLE, metadata={"delta.typeChanges": changes}),
            StructField(name="e", data_type=DOUBLE),
        )
    )
    assert keeps("d > 0.1D", bounds("d", 0.1, 0.1), schema=schema)
    assert keeps("d = 0.1D", bounds("d", 0.1, 0.1), schema=schema)
    assert not keeps("e > 0.1D", bounds("e", 0.1, 0.1), schema=schema)


def test_wide_bounds_are_bounds_and_their_null_counts_none():
    stats = bounds("l", 5, 8, nulls=4) | {"tightBounds": False}
    assert not keeps("l = 9", stats)
    assert keeps("l IS NULL", stats)
    assert keeps("l IS NOT NULL", stats)
    assert not keeps("l IS NULL", bounds("l", 5, 8) | {"tightBounds": False})


def test_decimals_keep_all_their_digits():
    low, high = "-99999999999999999999.999999999999999999", "1E-18"
    stats = (
        f'{{"numRecords":2,"minValues":{{"dec":{low}}},"maxValues":{{"dec":{high}}},'
        '"nullCount":{"dec":0}}'
    )
    assert keeps(f"dec <= {low}", stats)
    assert not keeps(f"dec < {low}", stats)
    assert keeps("dec > 0", stats)
    assert not keeps("dec > 0.000000000000000002", stats)
    assert not keeps("by = 1.5", bounds("by", 1, 2))


def test_bounds_of_long_decimals_that_were_put_through_a_double_lose_no_row():
    # deltalake 1.6 writes so for the values 0.009024791440785387 and 12345678901234567890.5.
    assert keeps("dec = 0.009024791440785387", bounds("dec", *[0.009024791440785388] * 2))
    assert keeps("dec > 12345678901234567890", bounds("dec", *[1.2345678901234567e19] * 2))
    assert not keeps("dec > 12345678901235000000", bounds("dec", *[1.2345678901234567e19] * 2))


@pytest.mark.parametrize("text", ["1.000000000000000000", "1E-18", "0.123456789012", "0", "-1.5"])
def test_bounds_of_few_digits_are_exact(text):
    stats = decimal_bounds(text)
    assert keeps(f"dec = {Decimal(text):f}", stats)
    assert not keeps(f"dec <> {Decimal(text):f}", stats)


@pytest.mark.parametrize(
    "text", ["0.123456789012345678", "99999999999999999999.999999999999999999"]
)
def test_bounds_of_more_digits_than_a_double_has_are_exact(text):
    assert keeps(f"dec = {text}", decimal_bounds(text))
    assert not keeps(f"dec <> {text}", decimal_bounds(text))


@pytest.mark.parametrize(
    "text",
    ["0.1234567890123", "0.1234567890123456", "-1234567890123456.7", "1.2345678901234567E+19"],
)
def test_bounds_of_as_many_digits_as_a_rounded_double_has_are_not(text):
    stats = decimal_bounds(text)
    assert keeps(f"dec < {Decimal(text):f}", stats)
    assert keeps(f"dec = {Decimal(text):f}", stats)
    assert keeps(f"dec > {Decimal(text):f}", stats)


def test_a_bound_that_a_writer_rounded_to_few_digits_is_taken_as_it_stands():
    # deltalake 1.6 writes 1.000000000000000001 so; see docs/design/decisions.md.
    assert not keeps("dec = 1.000000000000000001", decimal_bounds("1.0"))


def test_of_two_floats_the_bounds_are_all_there_is():
    few = {"numRecords": 3, "nullCount": {"d": 1}}
    stats = {**few, "minValues": {"d": 0.0}, "maxValues": {"d": "NaN"}}
    assert keeps("d = 0.0D", stats)
    assert keeps("0.0D = d", stats)
    assert not keeps("d = 1.5D", stats)
    assert not keeps("1.5D = d", stats)
    assert keeps("d = CAST('NaN' AS DOUBLE)", stats)
    assert keeps("d > 1.5D", stats)
    assert keeps("d = 1.5D", {**stats, "numRecords": 4})
    assert keeps("d = 1.5D", {**stats, "tightBounds": False})
    assert keeps("d = 1.5D", {**stats, "nullCount": {}})
    assert keeps("d = 1.5D", {**few, "maxValues": {"d": 2.5}})


def test_types_without_bounds_have_null_counts():
    stats = {"numRecords": 2, "nullCount": {"b": 2, "bin": 0, "a": 2}}
    assert not keeps("b", stats)
    assert not keeps("NOT b", stats)
    assert keeps("b IS NULL", stats)
    assert not keeps("bin IS NULL", stats)
    assert keeps("bin = X'00'", stats)


def test_counts_of_arrays_arent_trusted():
    assert keeps("a IS NOT NULL", {"numRecords": 2, "nullCount": {"a": 2}})
    assert plan_for("a IS NOT NULL").stats_schema is None


def test_nested_fields_have_statistics():
    stats = {
        "numRecords": 2,
        "minValues": {"n": {"x": 3}},
        "maxValues": {"n": {"x": 4}},
        "nullCount": {"n": {"x": 0, "y": 2}},
    }
    assert not keeps("n.x = 5", stats)
    assert keeps("n.x = 3", stats)
    assert not keeps("n.y = 'a'", stats)
    assert not keeps("n IS NULL", stats)
    assert keeps("n IS NOT NULL", stats)
    assert keeps("n IS NULL", {"numRecords": 2, "nullCount": {"n": {"x": 1, "y": 2}}})


def test_partition_values_decide_alone():
    plan = plan_for("p = 'a' AND q >= '2024-01-05'")
    assert plan.partition_columns == ("q", "p")
    assert plan.stats_schema is None
    assert plan.residual is None
    values = {
        "p": pa.array(["a", "b", "a", None]),
        "q": pa.array([dt.date(2024, 1, 5)] * 2 + [dt.date(2024, 1, 4), None]),
    }
    assert plan.select(values).to_pylist() == [True, False, False, False]


def test_the_residual_is_what_partition_values_dont_decide():
    plan = plan_for("p = 'a' AND (l > 5 OR q IS NULL) AND NOT (s = 'x')")
    assert repr(plan.residual) == repr(
        resolve(parse_predicate("(l > 5 OR q IS NULL) AND NOT (s = 'x')"), SCHEMA)
    )
    assert plan.residual is not None
    assert repr(plan_for("p = 'a' AND l > 5").residual) == repr(
        resolve(parse_predicate("l > 5"), SCHEMA)
    )


def test_partition_values_prune_before_statistics_are_parsed():
    plan = plan_for("p = 'a' AND l = 5")
    values = {"p": pa.array(["a", "b"])}
    assert plan.select(values).to_pylist() == [True, False]
    assert not keeps("p = 'a' OR l = 5", bounds("l", 6, 7), p="b")
    assert keeps("p = 'a' OR l = 5", bounds("l", 6, 7), p="a")


def test_a_null_partition_value_is_null():
    assert keeps("p IS NULL", None, p=None)
    assert keeps("p IS NULL", None, p="")
    assert not keeps("p <> 'a'", None, p=None)
    assert keeps("p <=> NULL", None, p=None)
    assert not keeps("NOT (p = 'a')", None, p=None)


def test_only_what_the_predicate_needs_is_parsed():
    schema = plan_for("l > 5 AND ts < '2024-01-01'").stats_schema
    assert schema == pa.schema(
        {
            "numRecords": pa.int64(),
            "nullCount": pa.struct({"l": pa.int64(), "ts": pa.int64()}),
            "minValues": pa.struct({"ts": pa.string()}),
            "maxValues": pa.struct({"l": pa.int64()}),
        }
    )
    assert plan_for("n.y IS NULL").stats_schema == pa.schema(
        {"nullCount": pa.struct({"n": pa.struct({"y": pa.int64()})})}
    )


def test_a_long_list_is_looked_at_in_runs():
    text = f"l IN ({', '.join(str(v) for v in range(0, 10_000, 10))})"
    assert keeps(text, bounds("l", 100, 100))
    assert keeps(text, bounds("l", 9_985, 9_995))
    assert not keeps(text, bounds("l", 10_001, 20_000))
    assert not keeps(text, bounds("l", -5, -1))
    assert keeps(f"NOT ({text})", bounds("l", 5, 5))


def test_a_list_may_mix_kinds_of_numbers():
    assert keeps("d IN (1, 2.5, 3e0)", bounds("d", 2.5, 2.5))
    assert not keeps("d IN (1, 2.5, DOUBLE('NaN'))", bounds("d", 3.0, 4.0))
    assert keeps("d IN (1, 2.5, DOUBLE('NaN'))", bounds("d", 3.0, "NaN"))


def test_columns_are_compared_by_their_ranges():
    stats = {
        "numRecords": 1,
        "minValues": {"l": 1, "d": 5.5},
        "maxValues": {"l": 5, "d": 9.0},
        "nullCount": {"l": 0, "d": 0},
    }
    assert keeps("l < d", stats)
    assert not keeps("l > d", stats)
    assert not keeps("l = d", stats)
    assert not keeps("NOT (l < d)", stats)


def test_every_distinct_partition_value_is_read_by_its_type():
    texts = pa.array(["2024-01-05", "", None, "2024-01-05"])
    assert parse_partition_values(texts, DATE).to_pylist() == [
        dt.date(2024, 1, 5),
        None,
        None,
        dt.date(2024, 1, 5),
    ]
    assert parse_partition_values(pa.array(["1.5"]), DecimalType(10, 4)).to_pylist() == [
        Decimal("1.5000")
    ]
    berlin = parse_partition_values(pa.array(["2024-01-05 10:00:00"]), TIMESTAMP, "Europe/Berlin")
    assert berlin.to_pylist() == [dt.datetime(2024, 1, 5, 9, tzinfo=dt.UTC)]
    with pytest.raises(ValueError, match="'x' isn't a value of type long"):
        parse_partition_values(pa.array(["x"]), LONG)
