# From the documentation of deltalake: integrations/delta-lake-arrow/
import sys

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

data = pa.table(
    {
        "value": ["4", "5", "6", "7"],
        "year": ["2020", "2021", "2021", "2021"],
        "v2": [11, 12, 13, 14],
    }
)
write_deltalake(PATH, data, partition_by="year")

dataset = DeltaTable(PATH).to_pyarrow_dataset()
ex_data = duckdb.arrow(dataset)
rows = ex_data.filter("year = '2021' and value > '5'").project("value").fetchall()
assert sorted(rows) == [("6",), ("7",)]

total = duckdb.sql("SELECT year, sum(v2) FROM dataset GROUP BY year ORDER BY year").fetchall()
assert total == [("2020", 11), ("2021", 39)]

quack = duckdb.arrow(DeltaTable(PATH).to_pyarrow_table())
assert quack.filter("v2 > 12").aggregate("count(*)").fetchall() == [(2,)]
