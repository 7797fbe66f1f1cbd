"""Forty programs of daily work, written for deltalake; `SETUP` runs before each."""

from __future__ import annotations

SETUP = """
from deltalake import DeltaTable, write_deltalake
import datetime as dt
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

path = "lake/orders"
orders = pa.table(
    {"id": [1, 2, 3, 4], "price": [1.5, 2.5, 3.5, 4.5], "country": ["NZ", "NZ", "AU", None]}
)
write_deltalake(path, orders, partition_by=["country"])
dt_ = DeltaTable(path)
"""

SNIPPETS = {
    "create from pandas": """
frame = pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})
write_deltalake("lake/frame", frame)
assert DeltaTable("lake/frame").to_pandas()["name"].tolist() == ["a", "b"]
""",
    "create from polars": """
write_deltalake("lake/polars", pl.DataFrame({"id": [1, 2]}))
assert DeltaTable("lake/polars").version() == 0
""",
    "append": """
write_deltalake(path, orders, mode="append")
assert DeltaTable(path).count() == 8
""",
    "overwrite": """
write_deltalake(path, orders.slice(0, 1), mode="overwrite")
assert DeltaTable(path).to_pandas()["id"].tolist() == [1]
""",
    "ignore an existing table": """
write_deltalake(path, orders, mode="ignore")
assert DeltaTable(path).version() == 0
""",
    "name, description and properties": """
write_deltalake(
    "lake/named", orders, name="orders", description="all orders",
    configuration={"delta.logRetentionDuration": "interval 10 days"},
)
metadata = DeltaTable("lake/named").metadata()
assert (metadata.name, metadata.description) == ("orders", "all orders")
assert metadata.configuration == {"delta.logRetentionDuration": "interval 10 days"}
""",
    "create an empty table": """
table = DeltaTable.create(
    "lake/empty", pa.schema([("id", pa.int64()), ("day", pa.string())]), partition_by="day"
)
assert table.metadata().partition_columns == ["day"]
""",
    "merge the schema": """
more = pa.table({"id": [5], "price": [1.0], "country": ["NZ"], "note": ["new"]})
write_deltalake(path, more, mode="append", schema_mode="merge")
assert DeltaTable(path).to_pandas(columns=["note"])["note"].notna().sum() == 1
""",
    "overwrite the schema": """
write_deltalake("lake/plain", orders)
write_deltalake("lake/plain", pa.table({"n": ["x"]}), mode="overwrite", schema_mode="overwrite")
assert DeltaTable("lake/plain").to_pyarrow_table().column_names == ["n"]
""",
    "replace rows by a predicate": """
new = pa.table({"id": [9], "price": [9.0], "country": ["NZ"]})
write_deltalake(path, new, mode="overwrite", predicate="country = 'NZ'")
assert sorted(DeltaTable(path).to_pandas()["id"]) == [3, 4, 9]
""",
    "read columns": """
assert list(dt_.to_pandas(columns=["id", "price"]).columns) == ["id", "price"]
""",
    "read partitions": """
assert sorted(dt_.to_pandas(partitions=[("country", "=", "NZ")])["id"]) == [1, 2]
""",
    "read with filters": """
assert dt_.to_pandas(filters=[("price", ">", 3.0)], columns=["id"])["id"].sum() == 7
""",
    "read an Arrow table": """
rows = dt_.to_pyarrow_table(columns=["id"])
assert sorted(rows["id"].to_pylist()) == [1, 2, 3, 4]
""",
    "read a dataset": """
dataset = dt_.to_pyarrow_dataset()
assert dataset.to_table(filter=pc.field("price") > 2, columns=["id"]).num_rows == 3
""",
    "read in batches": """
total = 0
for batch in dt_.to_pyarrow_dataset().to_batches(columns=["price"]):
    total += pc.sum(batch["price"]).as_py() or 0
assert total == 12
""",
    "query with DuckDB": """
events = dt_.to_pyarrow_dataset()
query = "SELECT country, sum(price) FROM events WHERE id < 3 GROUP BY country"
assert duckdb.sql(query).fetchall() == [("NZ", 4.0)]
""",
    "read into polars": """
frame = pl.from_arrow(dt_.to_pyarrow_table())
assert frame.filter(pl.col("price") > 3)["id"].sum() == 7
""",
    "time travel by version": """
write_deltalake(path, orders, mode="append")
assert len(DeltaTable(path, version=0).to_pandas()) == 4
""",
    "load another version": """
write_deltalake(path, orders, mode="append")
table = DeltaTable(path)
table.load_as_version(0)
assert table.version() == 0
""",
    "history": """
write_deltalake(path, orders, mode="append")
assert [commit["operation"] for commit in DeltaTable(path).history(1)] == ["WRITE"]
""",
    "schema": """
assert '"price"' in dt_.schema().to_json()
assert [field.name for field in dt_.schema().fields] == ["id", "price", "country"]
""",
    "protocol": """
assert dt_.protocol().min_reader_version == 1
assert dt_.protocol().min_writer_version >= 2
""",
    "files": """
assert all(uri.endswith(".parquet") for uri in dt_.file_uris())
assert len(dt_.file_uris(partition_filters=[("country", "=", "AU")])) == 1
""",
    "partitions": """
values = dt_.partitions()
assert {"country": "NZ"} in values and len(values) == 3
""",
    "delete": """
dt_.delete("id > 2")
assert DeltaTable(path).count() == 2
""",
    "delete all rows": """
dt_.delete()
assert len(DeltaTable(path).to_pandas()) == 0
""",
    "update by SQL": """
dt_.update(updates={"price": "price * 2"}, predicate="country = 'NZ'")
assert DeltaTable(path).to_pandas()["price"].sum() == 16
""",
    "update by values": """
dt_.update(new_values={"price": 100.0}, predicate="id = 4")
assert DeltaTable(path).to_pandas()["price"].max() == 100
""",
    "upsert": """
changes = pa.table({"id": [1, 9], "price": [10.0, 90.0], "country": ["NZ", "AU"]})
(
    dt_.merge(source=changes, predicate="t.id = s.id", source_alias="s", target_alias="t")
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .execute()
)
assert DeltaTable(path).to_pandas().set_index("id")["price"].loc[[1, 9]].tolist() == [10, 90]
""",
    "merge chosen columns": """
changes = pa.table({"id": [1, 9], "cost": [10.0, 90.0]})
(
    dt_.merge(source=changes, predicate="target.id = source.id",
              source_alias="source", target_alias="target")
    .when_matched_update(updates={"price": "source.cost"}, predicate="source.cost > 5")
    .when_not_matched_insert(updates={"id": "source.id", "price": "source.cost"})
    .execute()
)
assert DeltaTable(path).to_pandas()["price"].sum() == 110.5
""",
    "merge and delete": """
gone = pa.table({"id": [1, 2]})
(
    dt_.merge(source=gone, predicate="t.id = s.id", source_alias="s", target_alias="t")
    .when_matched_delete()
    .when_not_matched_by_source_update(updates={"price": "0"}, predicate="t.id = 3")
    .execute()
)
assert sorted(DeltaTable(path).to_pandas()["price"]) == [0, 4.5]
""",
    "vacuum": """
write_deltalake(path, orders, mode="overwrite")
table = DeltaTable(path)
table.vacuum()
assert len(list(__import__("pathlib").Path(path).rglob("*.parquet"))) == 6
table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
assert len(list(__import__("pathlib").Path(path).rglob("*.parquet"))) == 3
""",
    "compact": """
for _ in range(3):
    write_deltalake(path, orders, mode="append")
DeltaTable(path).optimize.compact(partition_filters=[("country", "=", "NZ")])
assert len(DeltaTable(path).file_uris([("country", "=", "NZ")])) == 1
""",
    "z-order": """
write_deltalake(path, orders, mode="append")
DeltaTable(path).optimize.z_order(["id", "price"])
assert DeltaTable(path).history(1)[0]["operation"] == "OPTIMIZE"
""",
    "change data feed": """
write_deltalake("lake/feed", orders, configuration={"delta.enableChangeDataFeed": "true"})
DeltaTable("lake/feed").delete("id = 1")
changes = pa.table(DeltaTable("lake/feed").load_cdf(starting_version=1, ending_version=1))
assert changes["_change_type"].to_pylist() == ["delete"]
""",
    "constraints and properties": """
dt_.alter.add_constraint({"positive": "price > 0"})
dt_.alter.set_table_properties({"delta.appendOnly": "false"})
dt_.alter.drop_constraint("positive")
try:
    dt_.alter.drop_constraint("positive", raise_if_not_exists=False)
finally:
    assert DeltaTable(path).metadata().configuration["delta.appendOnly"] == "false"
""",
    "restore": """
write_deltalake(path, orders, mode="append")
DeltaTable(path).restore(0)
assert DeltaTable(path).count() == 4
""",
    "commit metadata": """
from deltalake import CommitProperties
write_deltalake(
    path, orders, mode="append", commit_properties=CommitProperties(custom_metadata={"job": "a"})
)
assert DeltaTable(path).history(1)[0]["job"] == "a"
""",
    "query builder": """
from deltalake import QueryBuilder
found = QueryBuilder().register("orders", dt_).execute("SELECT count(*) AS n FROM orders")
assert pa.table(found)["n"].to_pylist() == [4]
""",
}
