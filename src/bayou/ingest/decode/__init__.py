"""Decodes the values of Kafka records to Arrow columns."""

from bayou.ingest.decode.inference import merge_fields
from bayou.ingest.decode.json import Decoded, DecodePlan, JsonDecoder
from bayou.ingest.decode.json_schema import read_json_schema, record_columns
from bayou.ingest.decode.unknown_fields import additions, leaf_count, widened

__all__ = [
    "DecodePlan",
    "Decoded",
    "JsonDecoder",
    "additions",
    "leaf_count",
    "merge_fields",
    "read_json_schema",
    "record_columns",
    "widened",
]
