# From the documentation of deltalake: api/schema/
import json
import sys

from deltalake import DeltaTable, Field, Schema
from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

PATH = sys.argv[1]

schema = Schema(
    [
        Field("id", PrimitiveType("long"), nullable=False, metadata={"comment": "key"}),
        Field("tags", ArrayType(PrimitiveType("string"), contains_null=True)),
        Field("props", MapType("string", "integer", value_contains_null=False)),
        Field("addr", StructType([Field("city", "string"), Field("zip", "string")])),
        Field("price", PrimitiveType("decimal(10,2)")),
    ]
)
dt = DeltaTable.create(PATH, schema=schema)

back = dt.schema()
assert back == schema
assert [f.name for f in back.fields] == ["id", "tags", "props", "addr", "price"]
assert back.fields[0].nullable is False
assert back.fields[0].metadata == {"comment": "key"}
assert back.fields[0].type == PrimitiveType("long")
assert back.fields[1].type.element_type == PrimitiveType("string")
assert back.fields[2].type.value_contains_null is False
assert [f.name for f in back.fields[3].type.fields] == ["city", "zip"]
assert Schema.from_json(back.to_json()) == schema
js = json.loads(back.to_json())
assert js["type"] == "struct"
assert js["fields"][4]["type"] == "decimal(10,2)"
