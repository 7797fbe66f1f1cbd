# From the documentation of deltalake: usage/examining-table/#schema
import json
import sys

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.schema import PrimitiveType

PATH = sys.argv[1]

write_deltalake(PATH, pa.table({"id": pa.array([1, 2], pa.int64()), "d": pa.array([1.5, 2.5])}))

schema = DeltaTable(PATH).schema()
assert [f.name for f in schema.fields] == ["id", "d"]
assert schema.fields[0].type == PrimitiveType("long")
assert schema.fields[1].type.type == "double"
assert schema.fields[0].nullable

parsed = json.loads(schema.to_json())
assert parsed["fields"][0] == {
    "name": "id",
    "type": "long",
    "nullable": True,
    "metadata": {},
}
assert Schema.from_json(schema.to_json()) == schema

arrow = pa.schema(schema.to_arrow())
assert arrow.names == ["id", "d"]
assert arrow.field("id").type == pa.int64()
assert Schema.from_arrow(arrow) == schema
