"""The Kafka metadata columns of a target table; the module `row_layout` describes the columns."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.protocol.actions import CHANGE_COLUMNS, is_change_data_feed_enabled
from bayou.protocol.schema import (
    BINARY,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    StructField,
    StructType,
)

HEADERS = ArrayType(
    element_type=StructType(
        (
            StructField(name="key", data_type=STRING),
            StructField(name="value", data_type=BINARY),
        )
    )
)
"""The type of the columns `headers` and `_kafka_headers`."""

KAFKA_COLUMNS = StructType(
    (
        StructField(name="_kafka_topic", data_type=STRING, nullable=False),
        StructField(name="_kafka_partition", data_type=INTEGER, nullable=False),
        StructField(name="_kafka_offset", data_type=LONG, nullable=False),
        StructField(name="_ingestion_timestamp", data_type=TIMESTAMP, nullable=False),
        StructField(name="_processed_at", data_type=TIMESTAMP, nullable=False),
    )
)

RECORD_COLUMNS = StructType(
    (
        StructField(name="_kafka_timestamp", data_type=TIMESTAMP),
        StructField(name="_kafka_key", data_type=BINARY),
        StructField(name="_kafka_headers", data_type=HEADERS),
        StructField(name="_kafka_key_json", data_type=STRING),
    )
)
"""Optional columns with Kafka metadata; the setting `kafka-columns` selects them."""


def feed_columns(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the lowercase column names that a table's change data feed reserves.

    The result is empty if the table properties don't enable the feed.
    """
    return frozenset(CHANGE_COLUMNS.names if is_change_data_feed_enabled(properties) else ())
