"""Rows as Python values."""

from __future__ import annotations

import pyarrow as pa

from bayou.api.rows.arrow_stream import python_rows

DAYS = pa.array([5_000_000, 0], pa.date32())


def test_dates_that_python_does_not_have_are_texts_wherever_they_stand():
    lists = pa.ListArray.from_arrays([0, 1, 2], DAYS)
    maps = pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), DAYS)
    structs = pa.StructArray.from_arrays([DAYS, lists], ["day", "days"])
    table = pa.table({"day": DAYS, "list": lists, "map": maps, "struct": structs, "id": [1, 2]})
    far = "15659-07-15"
    expected = {
        "day": far,
        "list": [far],
        "map": [("a", far)],
        "struct": {"day": far, "days": [far]},
        "id": 1,
    }
    assert python_rows(table)[0] == expected
    assert python_rows(table.to_batches()[0])[0] == expected


def test_rows_that_python_has_are_left_as_they_are():
    table = pa.table({"day": DAYS.slice(1)})
    assert python_rows(table) == table.to_pylist()
