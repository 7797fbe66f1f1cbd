"""Dates of Spark's old calendar; expected values are those of Spark's own RebaseDateTime."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.legacy_calendar import legacy_time_zone, mark_legacy_fields, rebase_datetimes
from bayou.kernel import col
from bayou.kernel.engine import FileSplit

DAYS = [
    (-141427, -141427),
    (-141428, -141438),
    (-719164, -719162),
    (-719165, -719163),
    (-682945, -682944),
    (-682946, -682944),
    (-171595, -171605),
    (-171596, -171605),
    (0, 0),
]

MOMENTS = {
    "UTC": [
        (-59177471116989851, -59177298316989851),
        (-18080177877247153, -18080869077247153),
        (-2111608311430854, -2111608311430854),
        (-2144991077155978, -2144991077155978),
    ],
    "America/Los_Angeles": [
        (-58636567870165207, -58636481892165207),
        (-16236858775463128, -16237636797463128),
        (-2153546634681674, -2153546634681674),
        (-2194900533550202, -2194900533550202),
    ],
    "Europe/Moscow": [
        (-61405793356622484, -61405618773622484),
        (-28839892976775508, -28840409593775508),
        (-2183505812875357, -2183505812875357),
        (-2351919614861214, -2351917831861214),
    ],
    "Asia/Kolkata": [
        (-61515083542854865, -61514912150854865),
        (-25909436389908245, -25910042597908245),
        (-2141376294377841, -2141376294377841),
        (-2294556250435242, -2294555720435242),
    ],
    "+01:00": [
        (-59955088901393681, -59954916101393681),
        (-16270776915880790, -16271554515880790),
        (-2144788781973974, -2144788781973974),
        (-2273853920132965, -2273853920132965),
    ],
    "GMT-03:30": [
        (-60879948176741345, -60879775376741345),
        (-31809509143181360, -31809941143181360),
        (-2056613195669411, -2056613195669411),
        (-2193716378373183, -2193716378373183),
    ],
}


def test_days_have_the_dates_that_they_had():
    days = pa.array([*(old for old, _ in DAYS), None], pa.int32()).cast(pa.date32())
    found = rebase_datetimes(days, "UTC")
    assert found.type == pa.date32()
    assert found.cast(pa.int32()).to_pylist() == [*(new for _, new in DAYS), None]


@pytest.mark.parametrize(("time_zone", "moments"), MOMENTS.items())
def test_moments_have_the_clocks_that_they_had_in_their_time_zone(time_zone, moments):
    old, new = zip(*moments, strict=True)
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        found = rebase_datetimes(pa.array([*old, None], pa.int64()).cast(kind), time_zone)
        assert found.type == kind
        assert found.cast(pa.int64()).to_pylist() == [*new, None]


def test_a_time_zone_that_nobody_knows_is_an_error_where_it_matters():
    now = pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))
    assert rebase_datetimes(now, "Mars/Olympus") is now
    with pytest.raises(pa.ArrowInvalid, match="Mars/Olympus"):
        rebase_datetimes(
            pa.array([dt.datetime(1500, 1, 1)], pa.timestamp("us", "UTC")), "Mars/Olympus"
        )


VERSION = "org.apache.spark.version"
LEGACY = "org.apache.spark.legacyDateTime"
LEGACY_INT96 = "org.apache.spark.legacyINT96"


@pytest.mark.parametrize(
    ("footer", "int96", "date"),
    [
        ({}, None, None),
        ({LEGACY: ""}, None, None),
        ({VERSION: "2.4.8"}, "UTC", "UTC"),
        ({VERSION: "3.0.3"}, "UTC", None),
        ({VERSION: "3.1.0"}, None, None),
        ({VERSION: "4.0.0", LEGACY: ""}, None, "UTC"),
        ({VERSION: "4.0.0", LEGACY_INT96: ""}, "UTC", None),
        (
            {VERSION: "3.5.0", LEGACY: "", "org.apache.spark.timeZone": "Asia/Tokyo"},
            None,
            "Asia/Tokyo",
        ),
    ],
)
def test_the_footer_tells_which_columns_are_in_the_old_calendar(footer, int96, date):
    fields = [
        pa.field("n", pa.int32()),
        pa.field("s", pa.struct([pa.field("d", pa.date32()), pa.field("x", pa.string())])),
        pa.field("i", pa.timestamp("ns")),
        pa.field("l", pa.list_(pa.date32())),
    ]
    sink = pa.BufferOutputStream()
    schema = pa.schema(fields, metadata=footer)
    pq.write_table(schema.empty_table(), sink, use_deprecated_int96_timestamps=True)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    found = mark_legacy_fields(file.schema_arrow, file.schema)
    assert legacy_time_zone(found.field("n")) is None
    assert legacy_time_zone(found.field("i")) == int96
    assert legacy_time_zone(found.field("s").type.field(0)) == date
    assert legacy_time_zone(found.field("l").type.value_field) == date


def test_bounds_in_another_calendar_leave_out_no_row_group(tmp_path):
    """The day 1000-01-01 is stored as 1000-01-06, what is beside it as 1000-01-07."""
    days = pa.array([dt.date(1000, 1, 6), dt.date(1000, 1, 7)])
    path = str(tmp_path / "f.parquet")
    table = pa.table({"d": days}).replace_schema_metadata({VERSION: "2.4.8"})
    pq.write_table(table, path, row_group_size=1)
    split = FileSplit(path=path, size=(tmp_path / "f.parquet").stat().st_size)
    wanted = pa.schema([("d", pa.date32())])
    found = ArrowEngine().parquet.read_parquet_files([split], wanted, col("d") == "1000-01-01")
    assert [d for batch in found for d in batch.column("d").to_pylist()] == [
        dt.date(1000, 1, 1),
        dt.date(1000, 1, 2),
    ]
