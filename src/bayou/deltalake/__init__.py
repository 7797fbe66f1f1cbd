"""The API of the package `deltalake` 1.6, implemented by Bayou.

A program written for `deltalake` runs after its imports are changed to `bayou.deltalake`,
`bayou.deltalake.exceptions` and `bayou.deltalake.schema`. To read the code,
start with `table.py`.
"""

from typing import TYPE_CHECKING

from bayou import lazy_import
from bayou.version import VERSION as __version__  # noqa: N811  # the name that programs look for

if TYPE_CHECKING:
    from bayou.deltalake.properties import (
        BloomFilterProperties,
        ColumnProperties,
        CommitProperties,
        PostCommitHookProperties,
        TableFeatures,
        Transaction,
        WriterProperties,
    )
    from bayou.deltalake.query import QueryBuilder
    from bayou.deltalake.schema import DataType, Field, Schema, VariantType
    from bayou.deltalake.table import DeltaTable
    from bayou.deltalake.writer import convert_to_deltalake, write_deltalake
    from bayou.protocol.actions import Metadata

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "CommitProperties",
    "DataType",
    "DeltaTable",
    "Field",
    "Metadata",
    "PostCommitHookProperties",
    "QueryBuilder",
    "Schema",
    "TableFeatures",
    "Transaction",
    "VariantType",
    "WriterProperties",
    "__version__",
    "convert_to_deltalake",
    "write_deltalake",
]

_MODULES = {
    "DataType": "schema",
    "DeltaTable": "table",
    "Field": "schema",
    "QueryBuilder": "query",
    "Schema": "schema",
    "VariantType": "schema",
    "convert_to_deltalake": "writer",
    "write_deltalake": "writer",
}

__getattr__ = lazy_import.lazy_getattr(
    __name__,
    {
        name: f"bayou.deltalake.{_MODULES.get(name, 'properties')}"
        for name in __all__
        if name not in ("Metadata", "__version__")
    }
    | {"Metadata": "bayou.protocol.actions"},
    {
        "enable_nanosecond_timestamps": "timestamps with microseconds, which is what Delta has",
        "init_tracing": "Python's logging",
        "rust_core_version": "__version__",
    },
)
__dir__ = lazy_import.public_dir(__all__)
