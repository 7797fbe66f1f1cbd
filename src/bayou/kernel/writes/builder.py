"""Building a transaction: what it is to change besides files."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Iterable, Mapping

import msgspec

from bayou.errors import (
    ArgumentError,
    SchemaError,
    TableNotFoundError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel.engine import Engine
from bayou.kernel.table_state import TableState, load_table_state
from bayou.kernel.writes.operation import Operation
from bayou.kernel.writes.schema_evolution import check_fits, check_new_table, merge_schemas
from bayou.kernel.writes.transaction import Transaction
from bayou.protocol import features, properties
from bayou.protocol.actions import Metadata, Protocol
from bayou.protocol.change_data import is_feed_enabled, reserved_columns
from bayou.protocol.schema import StructType

__all__ = ["TransactionBuilder"]

_DEFAULT_RETRIES = 200


class TransactionBuilder:
    """Collects what a transaction needs; each method gives a new builder.

    Made by `Table.create_transaction_builder` or `Snapshot.build_update_table_transaction`.
    """

    def __init__(
        self,
        *,
        table: str,
        read_state: TableState | None,
        engine_info: str,
        operation: Operation,
    ) -> None:
        self._table = table
        self._read_state = read_state
        self._engine_info = engine_info
        self._operation = operation
        self._schema: StructType | None = None
        self._partition_columns: tuple[str, ...] | None = None
        self._properties: dict[str, str] = {}
        self._transaction_ids: dict[str, int] = {}
        self._schema_evolution = False
        self._max_retries = _DEFAULT_RETRIES
        self._operation_parameters: dict[str, object] = {}
        self._user_metadata: str | None = None

    def with_schema(self, schema: StructType) -> TransactionBuilder:
        """Schema of a new table, or of the rows for an existing one.

        With an existing table it must fit, see `with_schema_evolution`.
        """
        builder = copy.copy(self)
        builder._schema = schema
        return builder

    def with_partition_columns(self, columns: Iterable[str]) -> TransactionBuilder:
        """Partition columns of a new table; for an existing one they must be its own."""
        builder = copy.copy(self)
        builder._partition_columns = tuple(columns)
        return builder

    def with_table_properties(self, configuration: Mapping[str, str]) -> TransactionBuilder:
        """Set table properties (PROTOCOL.md, Table Properties), those of the table stay."""
        builder = copy.copy(self)
        builder._properties = {**self._properties, **configuration}
        return builder

    def with_transaction_id(self, app_id: str, version: int) -> TransactionBuilder:
        """Record an application's progress; more than one application may be named.

        Where the table has recorded this version or a later one already, the commit does nothing
        and says so.
        """
        if not app_id:
            raise ArgumentError("An application id can't be empty.", argument="app_id")
        builder = copy.copy(self)
        builder._transaction_ids = {**self._transaction_ids, app_id: version}
        return builder

    def with_schema_evolution(self, enabled: bool = True) -> TransactionBuilder:
        """Columns of the rows that an existing table lacks are added to it, nullable."""
        builder = copy.copy(self)
        builder._schema_evolution = enabled
        return builder

    def with_max_retries(self, retries: int) -> TransactionBuilder:
        """How often a lost commit is tried again, 200 unless told."""
        if retries < 0:
            raise ArgumentError(f"max_retries can't be {retries}; 0 or more.", argument="retries")
        builder = copy.copy(self)
        builder._max_retries = retries
        return builder

    def with_operation_parameters(self, parameters: Mapping[str, object]) -> TransactionBuilder:
        """`commitInfo.operationParameters`, plain values."""
        builder = copy.copy(self)
        builder._operation_parameters = {**self._operation_parameters, **parameters}
        return builder

    def with_user_metadata(self, text: str | None) -> TransactionBuilder:
        """`commitInfo.userMetadata`."""
        builder = copy.copy(self)
        builder._user_metadata = text
        return builder

    def build(self, engine: Engine) -> Transaction:
        """Read the table where that hasn't been done, and begin.

        Raises:
            TableNotFoundError: there is no table and no schema for a new one.
            SchemaError: schema or partitioning can't be, or don't fit the table.
            TablePropertyError: a property that isn't one, or an unusable value.
            UnsupportedFeatureError: the table needs of a writer what isn't supported.
        """
        state = self._read_state
        if state is None:
            try:
                state = load_table_state(engine, self._table)
            except TableNotFoundError:
                if self._schema is None:
                    raise
        configuration = self._checked_properties()
        if state is None:
            assert self._schema is not None  # or the error above
            protocol, metadata = self._new_table(self._schema, configuration)
            new_protocol: Protocol | None = protocol
            new_metadata: Metadata | None = metadata
            schema = self._schema
        else:
            protocol = state.protocol
            metadata, schema = self._updated(state, configuration)
            new_protocol = None
            new_metadata = None if metadata == state.metadata else metadata
        _check_writable(self._table, protocol, metadata, schema)
        _check_properties(self._table, metadata.configuration)
        if new_metadata is not None:
            _check_change_data_columns(self._table, metadata.configuration, schema)
        return Transaction(
            table=self._table,
            read_state=state,
            protocol=new_protocol,
            metadata=new_metadata,
            schema=schema,
            partition_columns=tuple(metadata.partition_columns),
            configuration=metadata.configuration,
            transaction_ids=self._transaction_ids,
            operation=self._operation,
            operation_parameters=self._operation_parameters,
            engine_info=self._engine_info,
            user_metadata=self._user_metadata,
            max_retries=self._max_retries,
        )

    def _checked_properties(self) -> dict[str, str]:
        try:
            properties.validate(self._properties)
        except properties.PropertyValueError as error:
            raise TablePropertyError(
                f"{self._table}: {error}.", table=self._table, key=error.key
            ) from error
        return properties.normalize(self._properties)

    def _new_table(
        self, schema: StructType, configuration: dict[str, str]
    ) -> tuple[Protocol, Metadata]:
        columns = self._partition_columns or ()
        check_new_table(self._table, schema, columns)
        return features.protocol_for(schema, configuration), Metadata(
            id=str(uuid.uuid4()),
            schema_string=schema.to_json(),
            partition_columns=list(columns),
            created_time=time.time_ns() // 1_000_000,
            configuration=_without_feature_keys(configuration),
        )

    def _updated(
        self, state: TableState, configuration: dict[str, str]
    ) -> tuple[Metadata, StructType]:
        given = self._partition_columns
        if given is not None and given != state.partition_columns:
            raise SchemaError(
                f"{self._table} is partitioned by ({', '.join(state.partition_columns)}), not by "
                f"({', '.join(given)}); the partitioning of an existing table stays.",
                table=self._table,
            )
        schema = state.schema
        if self._schema is not None and self._schema_evolution:
            schema = merge_schemas(self._table, schema, self._schema)
        elif self._schema is not None:
            check_fits(self._table, schema, self._schema)
        metadata = state.metadata
        if schema != state.schema:
            metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
        merged = {**metadata.configuration, **configuration}
        if merged != metadata.configuration:
            metadata = msgspec.structs.replace(
                metadata, configuration=_without_feature_keys(merged)
            )
        if metadata != state.metadata or merged != state.metadata.configuration:
            _check_features_are_there(state, schema, merged)
        return metadata, schema


def _without_feature_keys(configuration: Mapping[str, str]) -> dict[str, str]:
    """`delta.feature.*` asks for a feature in the protocol and isn't kept as a property."""
    prefix = features.FEATURE_PREFIX
    return {k: v for k, v in configuration.items() if not k.startswith(prefix)}


def _check_features_are_there(
    state: TableState, schema: StructType, configuration: Mapping[str, str]
) -> None:
    known = features.writer_features(state.protocol)
    missing = [n for n in features.features_in_use(schema, configuration) if n not in known]
    if missing:
        raise UnsupportedFeatureError(
            f"This change to {state.path} needs {', '.join(missing)} in the table's protocol, "
            "which this version of Bayou doesn't upgrade. Make the change with delta-spark, or "
            "make a new table with it.",
            table=state.path,
            features=missing,
        )


_USED_IN_WRITES = (
    properties.APPEND_ONLY,
    properties.CHECKPOINT_INTERVAL,
    properties.COMPRESSION_CODEC,
    properties.ISOLATION_LEVEL,
    properties.RANDOMIZE_FILE_PREFIXES,
    properties.RANDOM_PREFIX_LENGTH,
    properties.SKIPPING_COLUMNS,
    properties.SKIPPING_COLUMN_COUNT,
    properties.TARGET_FILE_SIZE,
)


def _check_properties(table: str, configuration: Mapping[str, str]) -> None:
    """What is set to nonsense is said before anything is written."""
    for known in _USED_IN_WRITES:
        try:
            known.read(configuration)
        except properties.PropertyValueError as error:
            raise TablePropertyError(f"{table}: {error}.", table=table, key=error.key) from error


def _check_writable(table: str, protocol: Protocol, metadata: Metadata, schema: StructType) -> None:
    missing = features.unsupported_for_write(protocol, metadata.configuration, schema)
    if missing:
        raise UnsupportedFeatureError(
            f"{table} can't be written: it needs {', '.join(missing)} of a writer, which this "
            "version of Bayou doesn't support. Write it with delta-spark, or without that feature.",
            table=table,
            features=missing,
        )


def _check_change_data_columns(
    table: str, configuration: Mapping[str, str], schema: StructType
) -> None:
    """The change data feed gives rows three columns more; a table with it has none of that name."""
    reserved = reserved_columns(schema) if is_feed_enabled(configuration) else ()
    if reserved:
        raise SchemaError(
            f"{table} can't have a column {reserved[0]!r}: the name belongs to the change data "
            "feed, which is on (delta.enableChangeDataFeed). Rename the column, or turn the feed "
            "off.",
            table=table,
            column=reserved[0],
        )
