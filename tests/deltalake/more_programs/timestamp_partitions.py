import sys
from datetime import date, datetime, timezone

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

utc = timezone.utc
cases = {
    "date": ([date(2022, 1, 1), date(2022, 1, 2), None], pa.date32()),
    "ntz": (
        [datetime(2022, 1, 1, 1, 2, 3), datetime(2022, 1, 1, 0, 0, 0, 500), None],
        pa.timestamp("us"),
    ),
    "tz": (
        [datetime(2022, 1, 1, 5, tzinfo=utc), datetime(2023, 1, 1, tzinfo=utc), None],
        pa.timestamp("us", tz="UTC"),
    ),
    "int": ([1, -2, None], pa.int32()),
    "float": ([1.5, -0.25, None], pa.float64()),
    "bool": ([True, False, None], pa.bool_()),
    "str": (["a", "b", None], pa.string()),
}
for name, (values, typ) in cases.items():
    path = f"{sys.argv[1]}/p_{name}"
    data = pa.table({"p": pa.array(values, typ), "x": [1, 2, 3]})
    write_deltalake(path, data, partition_by=["p"])
    dt = DeltaTable(path)
    assert dt.metadata().partition_columns == ["p"]
    assert dt.to_pyarrow_table().sort_by("x") == data, name
    dt.create_checkpoint()
    dt = DeltaTable(path)
    assert dt.to_pyarrow_table().sort_by("x") == data, name
    dt.delete("p is null")
    assert sorted(dt.to_pyarrow_table()["x"].to_pylist()) == [1, 2], name
    write_deltalake(path, data.slice(1, 1), mode="append")
    dt.update_incremental()
    dt.optimize.compact()
    assert dt.to_pyarrow_table().sort_by("x")["p"].to_pylist() == [
        values[0],
        values[1],
        values[1],
    ], name
