"""`to_array` returns what pyarrow returns, without pandas."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from bayou.kernel.arrow.arrays import ConstantColumn, _build, to_array, to_scalar

AT = dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.timezone(dt.timedelta(hours=-5)))
STRUCT = pa.struct([pa.field("a", pa.int32(), False), ("b", pa.string())])

CASES = [
    ([1, None, -3], pa.int64()),
    ([], pa.int32()),
    ([None, None], pa.int8()),
    ([None, None], STRUCT),
    ([1, 2], pa.int64()),
    (["a", "b"], pa.string()),
    (["\u00fc", "b"], pa.string()),
    ([], pa.bool_()),
    ([False] * 8 + [True], pa.bool_()),
    ([1.5, float("inf"), None], pa.float64()),
    (["a", "", None, "\u00fc\U0001f600"], pa.string()),
    ([b"", b"xy", None], pa.binary()),
    ([True, None, False] * 5, pa.bool_()),
    ([{"a": 1, "b": None}, None, {"a": 2, "b": "x"}], STRUCT),
    ([[("k", "v"), ("l", None)], None, []], pa.map_(pa.string(), pa.string())),
    ([[1, 2], None, [], [None]], pa.list_(pa.int64())),
    ([[{"a": 1, "b": "y"}], None], pa.list_(STRUCT)),
    ([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
    ([dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), None], pa.timestamp("us")),
    ([dt.datetime(1, 1, 1, tzinfo=dt.UTC), AT, None], pa.timestamp("us", "UTC")),
    ([AT], pa.timestamp("us")),
    ([Decimal("-1.50"), None, Decimal("1E+2"), Decimal(0)], pa.decimal128(5, 2)),
    ([Decimal("9" * 38), Decimal("-" + "9" * 38)], pa.decimal128(38, 0)),
    ([None], pa.decimal128(5, 2)),
    ([2**64 - 1], pa.uint64()),
]


@pytest.mark.parametrize(("values", "arrow_type"), CASES)
def test_arrays_are_those_of_pyarrow(values, arrow_type):
    built = _build(values, arrow_type)
    built.validate(full=True)
    assert built.type == arrow_type
    assert built.equals(pa.array(values, arrow_type))
    assert built.null_count == pa.array(values, arrow_type).null_count


def test_other_types_are_converted_by_pyarrow():
    assert to_array([1], pa.decimal128(5, 2)).to_pylist() == [
        pa.scalar(1, pa.decimal128(5, 2)).as_py()
    ]
    assert to_scalar("a", pa.string()).as_py() == "a"


@pytest.mark.parametrize(
    ("value", "arrow_type"),
    [
        ("a", pa.int64()),
        (1 << 63, pa.int64()),
        (Decimal("1.005"), pa.decimal128(5, 2)),
        (Decimal(1000), pa.decimal128(5, 2)),
        (b"a", pa.date32()),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_errors_of_pyarrow(value, arrow_type):
    with pytest.raises((pa.ArrowException, OverflowError)) as expected:
        pa.array([value], arrow_type)
    with pytest.raises(type(expected.value)):
        to_array([value], arrow_type)


def test_the_arrays_of_a_constant_column_have_the_length_of_their_batches():
    constant = ConstantColumn(to_scalar("a", pa.string()))
    assert [constant.array(n).to_pylist() for n in (2, 3, 1, 0)] == [
        ["a"] * n for n in (2, 3, 1, 0)
    ]


def test_a_name_that_is_not_unicode_is_an_error():
    with pytest.raises(UnicodeEncodeError):
        _build(["a", "\udcff"], pa.string())


@pytest.mark.process
@pytest.mark.parametrize("count", [1, 20_000])
def test_pandas_is_not_imported(count):
    program = (
        "import sys, pyarrow as pa\n"
        "from bayou.kernel.arrow.arrays import to_array\n"
        f"to_array(['a', None] * {count}, pa.string())\n"
        "print('pandas' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert printed.strip() == "False"
