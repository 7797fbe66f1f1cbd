"""What the values of a topic's records are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bayou.ingest.decode.formats.registry import Registry

__all__ = ["FormatName", "RecordFormat"]

FormatName: TypeAlias = Literal["json", "avro", "protobuf", "csv", "string", "binary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """How a record's value becomes a JSON object. Pickles.

    Attributes:
        name: `json` for one that is; `string` and `binary` become the field `value`.
        registry: where the schemas of Avro and Protobuf are, None for none.
        schema: text of an Avro schema for values without the registry's header.
        csv_columns: names of the values of a line.
        csv_delimiter: what is between them.
        flatten: put between the names of nested fields; None leaves objects nested.
        json_schema: text of the JSON Schema that a record must satisfy before it is flattened.
        masks: of what `flatten` takes apart, by the names of columns, see `flattened`.
        timestamps: format of each field that is one, see `timestamps`; names of flattened records.
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
        """Whether records are decoded as they are."""
        return self.name == "json" and self.flatten is None and not self.timestamps
