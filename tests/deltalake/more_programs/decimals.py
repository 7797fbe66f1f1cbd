import sys
from decimal import Decimal

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

path = sys.argv[1] + "/dec"
D = Decimal
vals = [D("10.50"), D("-0.01"), D("99999999.99"), None]
write_deltalake(
    path,
    pa.table(
        {
            "id": [1, 2, 3, 4],
            "amount": pa.array(vals, pa.decimal128(10, 2)),
            "big": pa.array(
                [D("12345678901234567890.123456789"), None, D(0), D(1)], pa.decimal128(38, 9)
            ),
        }
    ),
)
dt = DeltaTable(path)
assert dt.schema().fields[1].type.type == "decimal(10,2)"
t = dt.to_pyarrow_table().sort_by("id")
assert t.schema.field("big").type == pa.decimal128(38, 9)
assert t["amount"].to_pylist() == vals
assert t["big"].to_pylist()[0] == D("12345678901234567890.123456789")
assert dt.to_pandas()["amount"].dropna().sum() == D("100000010.48")

dt.delete("amount < 0")
dt.update(updates={"amount": "amount + 1.25"}, predicate="id = 1")
assert dt.to_pyarrow_table().sort_by("id")["amount"].to_pylist() == [
    D("11.75"),
    D("99999999.99"),
    None,
]

q = (
    QueryBuilder()
    .register("t", dt)
    .execute("select sum(amount) as s from t where id < 4")
    .read_all()
)
assert pa.table(q)["s"].to_pylist() == [D("100000011.74")]
source = pa.table({"id": [4], "amount": pa.array([D("7.00")], pa.decimal128(10, 2))})
dt.merge(source, "t.id = s.id", "s", "t").when_matched_update({"amount": "s.amount"}).execute()
assert dt.to_pyarrow_table(filters=[("id", "=", 4)])["amount"].to_pylist() == [D("7.00")]
part = sys.argv[1] + "/decpart"
write_deltalake(
    part, pa.table({"p": pa.array([D("1.50")], pa.decimal128(5, 2)), "x": [1]}), partition_by="p"
)
assert DeltaTable(part).to_pyarrow_table().to_pylist() == [{"p": D("1.50"), "x": 1}]
