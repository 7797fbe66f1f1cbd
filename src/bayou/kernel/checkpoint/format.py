"""The format of a checkpoint: whether it contains statistics as JSON, as a struct, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.checkpoint.parsed_stats import full_stats_type, stats_to_json
from bayou.kernel.checkpoint.schema import METADATA_SCHEMA, REMOVE_TYPE
from bayou.kernel.checkpoint.stats import (
    indexed_schema,
    parse_stats,
    parsed_partition_values,
    project_struct,
)
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ADD_TYPE
from bayou.kernel.table_features.column_mapping import (
    column_mapping_mode,
    physical_name,
    to_physical_schema,
)
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import DataType, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFormat:
    """The format of a checkpoint, as the table properties define it.

    Most actions of a new checkpoint are read from the table's previous checkpoint.

    Attributes:
        as_json: whether to write `add.stats` (`delta.checkpoint.writeStatsAsJson`).
        stats_type: type of `add.stats_parsed`; None if the field isn't written
            (`delta.checkpoint.writeStatsAsStruct`).
        partitions: types of the columns in `add.partitionValues_parsed`, by physical name; empty if
            this field isn't written.
        source_type: Arrow type with which `stats_parsed` is read from the previous checkpoint, if
            the previous checkpoint has no statistics as JSON.
    """

    as_json: bool
    stats_type: Any
    partitions: Mapping[str, DataType]
    source_type: Any

    @classmethod
    def of(
        cls,
        schema: StructType,
        partition_columns: tuple[str, ...],
        configuration: Mapping[str, str],
    ) -> CheckpointFormat:
        properties = TableProperties(configuration)
        mode = column_mapping_mode(configuration)
        stats_type: Any = None
        partitions: dict[str, DataType] = {}
        if properties.write_stats_as_struct:
            indexed = indexed_schema(schema, partition_columns, properties)
            stats_type = full_stats_type(to_physical_schema(indexed, mode))
            partitions = {
                physical_name(f): f.data_type for f in schema if f.name in partition_columns
            }
        return cls(
            as_json=properties.write_stats_as_json,
            stats_type=stats_type,
            partitions=partitions,
            source_type=full_stats_type(to_physical_schema(schema, mode)),
        )

    @property
    def add_type(self) -> Any:
        fields: list[pa.Field[Any]] = [f for f in ADD_TYPE if self.as_json or f.name != "stats"]
        if self.partitions:
            partitions = parsed_partition_values(_NO_VALUES, self.partitions).type
            fields.append(pa.field("partitionValues_parsed", partitions))
        if self.stats_type is not None:
            fields.append(pa.field("stats_parsed", self.stats_type))
        return pa.struct(fields)

    @property
    def file_schema(self) -> pa.Schema:
        """Schema of the columns `add` and `remove`, which contain the file actions."""
        return pa.schema([pa.field("add", self.add_type), pa.field("remove", REMOVE_TYPE)])

    @property
    def schema(self) -> pa.Schema:
        """Schema of all columns of a V1 checkpoint."""
        return pa.schema([*METADATA_SCHEMA, *self.file_schema])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the fields of `ADD_TYPE` to read from the previous checkpoint."""
        has_stats = self.as_json or self.stats_type is not None
        return tuple(f.name for f in ADD_TYPE if has_stats or f.name != "stats")

    def adds(self, engine: Engine, files: CheckpointAdds) -> pa.StructArray:
        """Convert `add` actions of the previous checkpoint to the new checkpoint's column `add`.

        `dataChange` becomes false, as in delta-spark.
        """
        adds = files.adds
        columns = {f.name: adds.field(i) for i, f in enumerate(ADD_TYPE)}
        columns["dataChange"] = pa.repeat(to_scalar(False, pa.bool_()), len(adds))
        if files.parsed is not None and self.as_json:
            columns["stats"] = stats_to_json(files.parsed)
        if self.partitions:
            columns["partitionValues_parsed"] = parsed_partition_values(
                columns["partitionValues"], self.partitions
            )
        if self.stats_type is not None:
            columns["stats_parsed"] = (
                parse_stats(engine, columns["stats"], self.stats_type)
                if files.parsed is None
                else project_struct(files.parsed, self.stats_type)
            )
        fields = list(self.add_type)
        return pa.StructArray.from_arrays([columns[f.name] for f in fields], fields=fields)

    def batch(self, name: str, values: pa.StructArray) -> pa.RecordBatch:
        """Return V1 checkpoint rows with `values` in the column `name`; other columns are null."""
        schema = self.schema
        columns = [values if f.name == name else pa.nulls(len(values), f.type) for f in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


_NO_VALUES: Any = pa.nulls(0, pa.map_(pa.string(), pa.string()))  # pa.array would import pandas
