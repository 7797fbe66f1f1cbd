import sys
from datetime import date, datetime, timezone

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/ts"
utc = timezone.utc
write_deltalake(
    path,
    pa.table(
        {
            "id": [1, 2, 3],
            "d": pa.array([date(2022, 1, 1), date(1969, 12, 31), None], pa.date32()),
            "ntz": pa.array(
                [datetime(2022, 1, 1, 12, 30, 15, 123456), datetime(1900, 1, 1), None],
                pa.timestamp("us"),
            ),
            "tz": pa.array(
                [datetime(2022, 1, 1, 12, tzinfo=utc), datetime(2000, 1, 1, tzinfo=utc), None],
                pa.timestamp("us", tz="UTC"),
            ),
            "ber": pa.array(
                [datetime(2022, 7, 1, 10, tzinfo=utc)] * 3, pa.timestamp("us", tz="Europe/Berlin")
            ),
            "ms": pa.array([datetime(2022, 1, 1)] * 3, pa.timestamp("ms")),
        }
    ),
)
dt = DeltaTable(path)
kinds = {f.name: f.type.type for f in dt.schema().fields}
assert kinds == {
    "id": "long",
    "d": "date",
    "ntz": "timestamp_ntz",
    "tz": "timestamp",
    "ber": "timestamp",
    "ms": "timestamp_ntz",
}
assert dt.protocol().min_reader_version == 3 and dt.protocol().min_writer_version == 7
assert "timestampNtz" in dt.protocol().reader_features
t = dt.to_pyarrow_table().sort_by("id")
assert t.schema.field("tz").type == pa.timestamp("us", tz="UTC")
assert t["ntz"].to_pylist()[0] == datetime(2022, 1, 1, 12, 30, 15, 123456)
assert t["d"].to_pylist() == [date(2022, 1, 1), date(1969, 12, 31), None]
assert t["ber"].to_pylist()[0] == datetime(2022, 7, 1, 10, tzinfo=utc)
assert t["ms"].to_pylist()[0] == datetime(2022, 1, 1)
got = dt.to_pyarrow_table(filters=[("tz", ">", datetime(2010, 1, 1, tzinfo=utc))])
assert got["id"].to_pylist() == [1]
dt.delete("d < '1970-01-01'")
dt.update(updates={"ntz": "timestamp '2024-02-29 00:00:00'"}, predicate="ntz is null")
assert dt.to_pyarrow_table().sort_by("id")["ntz"].to_pylist()[1] == datetime(2024, 2, 29)
