# From the documentation of deltalake: api/query/
import sys

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

PATH = sys.argv[1]

write_deltalake(f"{PATH}/orders", pa.table({"cust": [1, 1, 2], "amount": [10, 20, 5]}))
write_deltalake(f"{PATH}/customers", pa.table({"id": [1, 2], "name": ["ann", "bob"]}))

qb = (
    QueryBuilder()
    .register("orders", DeltaTable(f"{PATH}/orders"))
    .register("customers", DeltaTable(f"{PATH}/customers"))
)
reader = qb.execute(
    """
    SELECT c.name, sum(o.amount) AS total
    FROM orders o JOIN customers c ON o.cust = c.id
    GROUP BY c.name ORDER BY c.name
    """
)
result = pa.table(reader.read_all())
assert result.column_names == ["name", "total"]
assert result.to_pydict() == {"name": ["ann", "bob"], "total": [30, 5]}

count = pa.table(qb.execute("SELECT count(*) AS n FROM orders WHERE amount >= 10").read_all())
assert count["n"].to_pylist() == [2]
