# From the documentation of deltalake: api/exceptions/
import sys

import pandas as pd
from deltalake import DeltaTable, TableFeatures, write_deltalake
from deltalake.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

PATH = sys.argv[1]

for cls in (CommitFailedError, DeltaProtocolError, SchemaMismatchError, TableNotFoundError):
    assert issubclass(cls, DeltaError)

try:
    DeltaTable(PATH)
except TableNotFoundError as err:
    assert str(err)
else:
    raise AssertionError("there is no table yet")

write_deltalake(PATH, pd.DataFrame({"id": [1]}), configuration={"delta.appendOnly": "true"})
dt = DeltaTable(PATH)
try:
    dt.delete("id = 1")
except (CommitFailedError, DeltaProtocolError):
    pass
else:
    raise AssertionError("the table is append only")

dt.alter.add_feature(TableFeatures.ChangeDataFeed, allow_protocol_versions_increase=True)
protocol = dt.protocol()
assert protocol.min_writer_version == 7
assert "changeDataFeed" in protocol.writer_features
write_deltalake(PATH, pd.DataFrame({"id": [2]}), mode="append")
assert sorted(DeltaTable(PATH).to_pandas()["id"]) == [1, 2]
