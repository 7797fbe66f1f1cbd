"""Delta Lake for PySpark without JARs.

`bayou.table(path)` reads a Delta table and `bayou.write(path, data)` writes one, without Spark.
`bayou.kernel` implements the Delta protocol for connector authors. `bayou.spark` is the Spark
connector. `bayou.ingest` is the pipeline that ingests Kafka topics.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import
from bayou.errors import BayouError
from bayou.version import VERSION as __version__  # noqa: N811  # the name that tools look for

if TYPE_CHECKING:
    from bayou.api import (
        create,
        exists,
        scan_polars,
        sql,
        table,
        variants_from_json,
        variants_to_json,
        write,
    )

__all__ = [
    "BayouError",
    "__version__",
    "create",
    "exists",
    "scan_polars",
    "sql",
    "table",
    "variants_from_json",
    "variants_to_json",
    "write",
]

__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {name: "bayou.api" for name in __all__ if name not in ("BayouError", "__version__")},
    {
        "DeltaTable": "bayou.table(path), or bayou.deltalake.DeltaTable",
        "write_deltalake": "bayou.write(path, data), or bayou.deltalake.write_deltalake",
        "convert_to_deltalake": "bayou.table(path).convert(), or bayou.deltalake",
        "QueryBuilder": "bayou.sql(query, name=table), or bayou.deltalake.QueryBuilder",
        "CommitProperties": "commit_metadata and transaction, or bayou.deltalake.CommitProperties",
        "WriterProperties": "compression and target_file_size, or bayou.deltalake.WriterProperties",
        "Schema": "a pyarrow.Schema, or bayou.deltalake.Schema",
        "Field": "a pyarrow.Field, or bayou.deltalake.Field",
        "read": "bayou.table(path).to_arrow()",
    },
)
__dir__ = lazy_import.public_dir(__all__)
