"""`to_array` returns what pyarrow returns, without pandas."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from bayou.kernel.arrow.arrays import _build, to_array, to_scalar

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
