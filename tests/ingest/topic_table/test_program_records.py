"""What a program hands over becomes JSON, or is an error that names it."""

from __future__ import annotations

import datetime as dt
import enum
import json
import types
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from bayou.errors import ArgumentError
from bayou.ingest.topic_table.topic_table import json_records

NOON = dt.datetime(2024, 1, 5, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (NOON, "2024-01-05T12:00:00Z"),
        (NOON.astimezone(dt.timezone(dt.timedelta(hours=2))), "2024-01-05T14:00:00+02:00"),
        (dt.date(2024, 1, 5), "2024-01-05"),
        (Decimal("1.50"), "1.50"),
        (b"\0\xff", "AP8="),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (enum.Enum("Kind", {"A": "a"}).A, "a"),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (2**70, 2**70),
        (float("nan"), None),
        (np.int64(5), 5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(1.5), 1.5),
        (np.float64(1.5), 1.5),
        (np.float64("nan"), None),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(["a", None], object), ["a", None]),
        (np.datetime64("2024-01-05"), "2024-01-05"),
        (pd.Timestamp("2024-01-05T12:00:00.123456789Z"), "2024-01-05T12:00:00.123456+00:00"),
        (pd.NaT, None),
    ],
    ids=repr,
)
def test_values_are_written_as_what_they_hold(value, written):
    (text,) = json_records([{"v": value}], argument="records")
    assert json.loads(text) == {"v": written}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "has the type object"),
        ("\ud800", "surrogates not allowed"),
        (np.datetime64("2024-01-05T12", "ns"), "has the type datetime64"),
        (pd.NA, "has the type NAType"),
    ],
    ids=["object", "half a pair", "nanoseconds", "NA"],
)
def test_what_has_no_json_is_named_by_its_place(value, said):
    with pytest.raises(ArgumentError, match=rf"records\[1\] can't be encoded as JSON: .*{said}"):
        json_records([{"v": 1}, {"v": {"w": [value]}}], argument="records")


def test_what_holds_itself_is_told():
    itself = {}
    itself["v"] = itself
    with pytest.raises(ArgumentError, match=r"records\[0\]"):
        json_records([itself], argument="records")
