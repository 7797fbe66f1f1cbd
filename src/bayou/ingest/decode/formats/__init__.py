"""Converts records of other formats than plain JSON to JSON objects, before they are decoded."""

from typing import TYPE_CHECKING

from bayou.lazy_import import lazy_getattr as _lazy_getattr

if TYPE_CHECKING:
    from bayou.ingest.decode.formats.avro import avro_schema_columns
    from bayou.ingest.decode.formats.decoder import RecordDecoder
    from bayou.ingest.decode.formats.flattening import flat_columns
    from bayou.ingest.decode.formats.record_format import RecordFormat
    from bayou.ingest.decode.formats.schema_registry import Registry
    from bayou.ingest.decode.formats.schema_registry_http import RegistryAddress
    from bayou.ingest.decode.formats.timestamps import (
        is_timestamp_format,
        schema_without,
        timestamp_columns,
    )

__all__ = [
    "RecordDecoder",
    "RecordFormat",
    "Registry",
    "RegistryAddress",
    "avro_schema_columns",
    "flat_columns",
    "is_timestamp_format",
    "schema_without",
    "timestamp_columns",
]

__getattr__ = _lazy_getattr(
    __name__,
    {
        "RecordDecoder": "bayou.ingest.decode.formats.decoder",
        "RecordFormat": "bayou.ingest.decode.formats.record_format",
        "Registry": "bayou.ingest.decode.formats.schema_registry",
        "RegistryAddress": "bayou.ingest.decode.formats.schema_registry_http",
        "avro_schema_columns": "bayou.ingest.decode.formats.avro",
        "flat_columns": "bayou.ingest.decode.formats.flattening",
        "is_timestamp_format": "bayou.ingest.decode.formats.timestamps",
        "schema_without": "bayou.ingest.decode.formats.timestamps",
        "timestamp_columns": "bayou.ingest.decode.formats.timestamps",
    },
)
