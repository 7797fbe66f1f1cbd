import sys

import pandas as pd
from deltalake import DeltaTable, write_deltalake

path = sys.argv[1] + "/filters"
df = pd.DataFrame(
    {
        "value": ["1", "2", "3", "6", "7", "5", "4"],
        "year": ["2020", "2020", "2020", "2021", "2021", "2021", "2021"],
        "month": ["1", "2", "2", "12", "12", "12", "4"],
        "day": ["1", "3", "5", "20", "20", "4", "5"],
    }
)
write_deltalake(path, df, partition_by=["year", "month", "day"])
dt = DeltaTable(path)


def values(**kw):
    return sorted(dt.to_pandas(columns=["value"], **kw)["value"])


assert values(partitions=[("year", "=", "2021")]) == ["4", "5", "6", "7"]
assert values(filters=[("year", "!=", "2021")]) == ["1", "2", "3"]
assert values(filters=[("day", "in", ["3", "20"])]) == ["2", "6", "7"]
assert values(filters=[("day", "not in", ["3", "20"]), ("year", "=", "2021")]) == ["4", "5"]
assert values(filters=[[("year", "=", "2020")], [("month", "=", "12")]]) == [
    "1",
    "2",
    "3",
    "5",
    "6",
    "7",
]
assert values(filters=[("value", ">=", "5")]) == ["5", "6", "7"]
uris = dt.file_uris([("year", "=", "2020"), ("month", "=", "2")])
assert uris and all("month=2" in u for u in uris)
parts = dt.partitions([("year", "=", "2021")])
assert {"year": "2021", "month": "4", "day": "5"} in parts
assert len({tuple(sorted(p.items())) for p in dt.partitions()}) == 6
for bad in ([("unknown", "=", "3")], [("day", "=>", "3")]):
    try:
        dt.file_uris(bad)
        raise AssertionError("not reached")
    except Exception as e:
        assert not isinstance(e, AssertionError)
