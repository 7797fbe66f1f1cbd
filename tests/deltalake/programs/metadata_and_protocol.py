# From the documentation of deltalake: usage/examining-table/#metadata
import sys
import time
import uuid

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

PATH = sys.argv[1]

before = int(time.time() * 1000) - 1000
write_deltalake(
    PATH,
    pa.table({"id": [1, 2], "country": ["de", "fr"]}),
    partition_by=["country"],
    name="people",
    description="all people",
    configuration={"delta.appendOnly": "true"},
)

dt = DeltaTable(PATH)
meta = dt.metadata()
assert str(uuid.UUID(str(meta.id))) == str(meta.id)
assert meta.name == "people"
assert meta.description == "all people"
assert meta.partition_columns == ["country"]
assert before <= meta.created_time <= int(time.time() * 1000) + 1000
assert meta.configuration == {"delta.appendOnly": "true"}
assert "people" in str(meta)

protocol = dt.protocol()
assert protocol.min_reader_version == 1
assert protocol.min_writer_version == 2
assert dt.table_uri.rstrip("/").endswith(PATH.rstrip("/"))
