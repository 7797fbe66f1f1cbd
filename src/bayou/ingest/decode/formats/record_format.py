"""The format of the values of a topic's records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bayou.ingest.decode.formats.registry import Registry

__all__ = ["FormatName", "RecordFormat"]

FormatName: TypeAlias = Literal["json", "avro", "protobuf", "csv", "string", "binary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """The format of values, which are converted to JSON objects. Can be pickled.

    Attributes:
        name: the format; `string` and `binary` values become the field `value`.
        registry: the registry of Avro and Protobuf schemas, None for none.
        schema: an Avro schema for values without the registry's header.
        csv_columns: names of the values of a line.
        csv_delimiter: separator of the values of a line.
        flatten: separator of the names of nested fields; None doesn't flatten objects.
        json_schema: the JSON Schema that validates records before flattening.
        masks: masks of flattened objects by column name, see `flattened`.
        timestamps: format of each timestamp field, see `timestamps`, by its name after flattening.
    """

    name: FormatName = "json"
    registry: Registry | None = None
    schema: str | None = None
    csv_columns: tuple[str, ...] = ()
    csv_delimiter: str = ","
    flatten: str | None = None
    json_schema: str | None = None
    masks: Mapping[str, str] = field(default_factory=dict)
    timestamps: Mapping[str, str] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether values are JSON that needs no conversion."""
        return self.name == "json" and self.flatten is None and not self.timestamps
