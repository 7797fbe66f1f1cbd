import sys

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

base = sys.argv[1]
write_deltalake(
    base + "/orders",
    pd.DataFrame(
        {
            "order_id": [1, 2, 3, 4],
            "cust": [10, 10, 20, 30],
            "total": [5.0, 7.5, 1.0, 2.0],
            "day": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-02", "2024-01-03"]),
        }
    ),
)
write_deltalake(base + "/customers", pd.DataFrame({"cust": [10, 20], "name": ["Ann", "Bob"]}))
orders, customers = DeltaTable(base + "/orders"), DeltaTable(base + "/customers")
qb = QueryBuilder().register("orders", orders).register("customers", customers)


def query(sql):
    return pa.table(qb.execute(sql).read_all()).to_pylist()


assert query("select count(*) as n from orders") == [{"n": 4}]
assert query("""select c.name, sum(o.total) as s from orders o
                join customers c on o.cust = c.cust group by c.name order by s desc""") == [
    {"name": "Ann", "s": 12.5},
    {"name": "Bob", "s": 1.0},
]
assert query(
    "select order_id from orders o left join customers c on o.cust = c.cust where c.name is null"
) == [{"order_id": 4}]
assert query(
    "with x as (select total, row_number() over (order by total desc) as r from orders) select total from x where r <= 2 order by r"
) == [{"total": 7.5}, {"total": 5.0}]
assert query(
    "select distinct cust from orders where day >= '2024-01-02' order by cust limit 2"
) == [{"cust": 10}, {"cust": 20}]
assert query(
    "select upper(name) as u, case when cust > 15 then 'hi' else 'lo' end as k from customers order by cust"
)[1] == {"u": "BOB", "k": "hi"}
assert sum(b.num_rows for b in qb.execute("select * from orders")) == 4
for sql in ("select * from missing", "selct 1", "select nope from orders"):
    try:
        qb.execute(sql).read_all()
        raise AssertionError("not reached")
    except Exception as e:
        assert not isinstance(e, AssertionError)
