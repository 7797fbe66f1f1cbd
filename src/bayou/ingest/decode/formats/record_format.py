"""The format of a topic's records, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bayou.ingest.decode.formats.schema_registry import Registry

FormatName: TypeAlias = Literal[
    "json", "avro", "protobuf", "json-schema", "csv", "string", "binary"
]
KeyFormatName: TypeAlias = Literal["json", "avro", "protobuf", "json-schema"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """How the values of records are converted to JSON objects. Can be pickled.

    Attributes:
        name: the format of the values. A `string` or `binary` value becomes an object with the
            field `value`.
        key: the format of Kafka keys. With `json`, keys can also be plain strings.
        key_registry: the schema registry for keys.
        schema: the Avro schema of values without a registry's header.
        flatten: separator between the names of nested fields in a flat column name, such as `_` for
            `place_city`; None if objects aren't flattened.
        json_schema: the JSON Schema of records before flattening; only set if `flatten` is set.
        masks: the mask of each column, which `flattening.flattened` needs for objects.
        timestamps: the timestamp format of each field; see the module `timestamps`. The keys are
            the names of the fields after flattening.
    """

    name: FormatName = "json"
    registry: Registry | None = None
    key: KeyFormatName = "json"
    key_registry: Registry | None = None
    schema: str | None = None
    csv_columns: tuple[str, ...] = ()
    csv_delimiter: str = ","
    flatten: str | None = None
    json_schema: str | None = None
    masks: Mapping[str, str] = field(default_factory=dict)
    timestamps: Mapping[str, str] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether values are JSON objects that need no conversion."""
        return self.name == "json" and self.flatten is None and not self.timestamps
