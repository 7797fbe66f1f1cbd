"""The columns of a topic's record fields: stored in the table, or only read by expressions.

A table property stores the types of fields that only expressions read, so that the types are the
same in all batches.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayou.ingest.batch.row_layout import RowLayout, record_field_columns
from bayou.ingest.config import Topic
from bayou.kernel import Snapshot
from bayou.protocol.schema import StructType

_INPUT_COLUMNS = "bayou.inputColumns"
"""The table property with the types of fields that only expressions read."""


def record_columns_of(topic: Topic, snapshot: Snapshot) -> StructType:
    """Return the columns of all record fields that a topic stores or that its expressions read.

    The types of stored fields are read from the table's schema. The types of fields that only
    expressions read are read from the table property `bayou.inputColumns`.
    """
    config = topic.config
    stored = record_field_columns(
        snapshot.schema, snapshot.partition_columns, topic.metadata_columns
    )
    derived = {name.lower() for name in config.processing.columns}
    inputs = {f.name.lower(): f for f in _input_columns(snapshot.properties)}
    columns = {
        f.name.lower(): f for f in stored if f.name.lower() not in derived | config.skipped_fields
    }
    columns |= {name: f for name, f in inputs.items() if name in config.input_fields}
    return StructType(tuple(columns.values()))


def input_properties(layout: RowLayout, known: Mapping[str, str]) -> dict[str, str]:
    """Return the table property with the types of fields that only expressions read.

    Args:
        layout: the current layout; `layout.inputs` has the types of the current fields.
        known: the table's current properties. Fields that only these properties contain are copied
            to the result.
    """
    inputs = {f.name.lower(): f for f in _input_columns(known)}
    inputs |= {f.name.lower(): f for f in layout.inputs}
    return {_INPUT_COLUMNS: StructType(tuple(inputs.values())).to_json()} if inputs else {}


def _input_columns(properties: Mapping[str, str]) -> StructType:
    value = properties.get(_INPUT_COLUMNS)
    return StructType() if value is None else StructType.from_json(value)
