"""Decodes the values of Kafka records to Arrow columns."""

from typing import TYPE_CHECKING

from bayou.lazy_import import lazy_getattr as _lazy_getattr

if TYPE_CHECKING:
    from bayou.ingest.decode.inference import merge_all, merge_fields
    from bayou.ingest.decode.json import Decoded, DecodePlan, JsonDecoder
    from bayou.ingest.decode.json_schema import read_json_schema, record_columns
    from bayou.ingest.decode.unknown_fields import additions, leaf_count, widened

__all__ = [
    "DecodePlan",
    "Decoded",
    "JsonDecoder",
    "additions",
    "leaf_count",
    "merge_all",
    "merge_fields",
    "read_json_schema",
    "record_columns",
    "widened",
]

__getattr__ = _lazy_getattr(
    __name__,
    {
        "DecodePlan": "bayou.ingest.decode.json",
        "Decoded": "bayou.ingest.decode.json",
        "JsonDecoder": "bayou.ingest.decode.json",
        "additions": "bayou.ingest.decode.unknown_fields",
        "leaf_count": "bayou.ingest.decode.unknown_fields",
        "merge_all": "bayou.ingest.decode.inference",
        "merge_fields": "bayou.ingest.decode.inference",
        "read_json_schema": "bayou.ingest.decode.json_schema",
        "record_columns": "bayou.ingest.decode.json_schema",
        "widened": "bayou.ingest.decode.unknown_fields",
    },
)
