"""Which columns a table's checkpoints have: statistics as text, as columns, both or neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.checkpoint.parsed_stats import full_stats_type, stats_texts
from bayou.kernel.checkpoint.schema import METADATA_SCHEMA, REMOVE_TYPE
from bayou.kernel.checkpoint.stats import (
    indexed_schema,
    parse_stats,
    parsed_partition_values,
    projected,
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

__all__ = ["CheckpointFormat"]

pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFormat:
    """The columns of a checkpoint, by the table's properties.

    Attributes:
        as_json: `add.stats`, unless `delta.checkpoint.writeStatsAsJson` is false.
        stats_type: of `add.stats_parsed`, where `delta.checkpoint.writeStatsAsStruct` is true;
            None for no such column.
        partitions: types of `add.partitionValues_parsed` by physical name; empty for no such
            column.
        source_type: of the statistics to read where there is no text.
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
        """The format that a table wants.

        Raises:
            PropertyValueError: a property that can't be read.
        """
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
        """Type of the column `add`."""
        fields: list[pa.Field[Any]] = [f for f in ADD_TYPE if self.as_json or f.name != "stats"]
        if self.partitions:
            partitions = parsed_partition_values(_NO_VALUES, self.partitions).type
            fields.append(pa.field("partitionValues_parsed", partitions))
        if self.stats_type is not None:
            fields.append(pa.field("stats_parsed", self.stats_type))
        return pa.struct(fields)

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of files: `add`, `remove`."""
        return pa.schema([pa.field("add", self.add_type), pa.field("remove", REMOVE_TYPE)])

    @property
    def schema(self) -> pa.Schema:
        """All columns of a V1 checkpoint."""
        return pa.schema([*METADATA_SCHEMA, *self.file_schema])

    @property
    def columns(self) -> tuple[str, ...]:
        """Fields of `ADD_TYPE` that have to be read."""
        wanted = self.as_json or self.stats_type is not None
        return tuple(f.name for f in ADD_TYPE if wanted or f.name != "stats")

    def adds(self, engine: Engine, files: CheckpointAdds) -> pa.StructArray:
        """Files as the checkpoint has them. They change no data, as delta-spark writes them."""
        adds = files.adds
        given = {f.name: adds.field(i) for i, f in enumerate(ADD_TYPE)}
        given["dataChange"] = pa.repeat(pa.scalar(False), len(adds))
        if files.parsed is not None and self.as_json:
            given["stats"] = stats_texts(files.parsed)
        if self.partitions:
            given["partitionValues_parsed"] = parsed_partition_values(
                given["partitionValues"], self.partitions
            )
        if self.stats_type is not None:
            given["stats_parsed"] = (
                parse_stats(engine, given["stats"], self.stats_type)
                if files.parsed is None
                else projected(files.parsed, self.stats_type)
            )
        fields = list(self.add_type)
        return pa.StructArray.from_arrays([given[f.name] for f in fields], fields=fields)

    def batch(self, name: str, values: pa.StructArray) -> pa.RecordBatch:
        """Actions of one kind as rows of a V1 checkpoint."""
        schema = self.schema
        columns = [values if f.name == name else pa.nulls(len(values), f.type) for f in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


_NO_VALUES: Any = pa.nulls(0, pa.map_(pa.string(), pa.string()))  # pa.array imports pandas
