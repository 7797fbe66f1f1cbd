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
from bayou.kernel.writes.column_ids import with_column_ids
from bayou.kernel.writes.operation import Operation
from bayou.kernel.writes.schema_evolution import check_fits, check_new_table, merge_schemas
from bayou.kernel.writes.transaction import Transaction
from bayou.protocol import column_rules, features, properties
from bayou.protocol.actions import DomainMetadata, Metadata, Protocol
from bayou.protocol.change_data import is_feed_enabled, reserved_columns
from bayou.protocol.column_rules import identity_of
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
        self._removed_properties: frozenset[str] = frozenset()
        self._features: tuple[str, ...] = ()
        self._versions = (0, 0)
        self._domains: dict[str, DomainMetadata] = {}

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

    def with_table_properties_removed(self, keys: Iterable[str]) -> TransactionBuilder:
        """Unset table properties; those that the table doesn't have are passed over."""
        builder = copy.copy(self)
        builder._removed_properties = self._removed_properties | frozenset(keys)
        return builder

    def with_features(self, names: Iterable[str]) -> TransactionBuilder:
        """Table features that the protocol is to have (PROTOCOL.md, Table Features)."""
        builder = copy.copy(self)
        builder._features = (*self._features, *names)
        return builder

    def with_protocol_versions(self, reader: int = 0, writer: int = 0) -> TransactionBuilder:
        """Raise the protocol to at least these versions; features are listed from (3, 7) on."""
        if not (0 <= reader <= 3 and 0 <= writer <= 7):
            raise ArgumentError(
                f"There is no protocol ({reader}, {writer}): reader versions are 1 to 3, writer "
                "versions 1 to 7.",
                argument="reader" if not 0 <= reader <= 3 else "writer",
            )
        builder = copy.copy(self)
        builder._versions = (reader, writer)
        return builder

    def with_domain_metadata(self, domain: str, configuration: str) -> TransactionBuilder:
        """Set a domain's configuration (PROTOCOL.md, Domain Metadata); any text, at most 50 MB.

        Raises:
            ArgumentError: a domain of Delta's own (`delta.`), or an empty name.
        """
        return self._with_domain(
            DomainMetadata(domain=domain, configuration=configuration, removed=False)
        )

    def with_domain_metadata_removed(self, domain: str) -> TransactionBuilder:
        """Remove a domain; nothing is written where the table doesn't have it."""
        return self._with_domain(DomainMetadata(domain=domain, configuration="", removed=True))

    def _with_domain(self, action: DomainMetadata) -> TransactionBuilder:
        if not action.domain or action.domain.lower().startswith("delta."):
            raise ArgumentError(
                f"The domain {action.domain!r} can't be set: names that begin with 'delta.' are "
                "Delta's own, and a name isn't empty.",
                argument="domain",
            )
        builder = copy.copy(self)
        builder._domains = {**self._domains, action.domain: action}
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
        domains = self._domain_actions(state)
        if state is None:
            assert self._schema is not None  # or the error above
            metadata, schema, asked = self._new_table(self._schema, configuration)
            protocol = features.protocol_for(schema, {**metadata.configuration, **asked})
        else:
            metadata, schema, asked = self._updated(state, configuration)
            protocol = state.protocol
            if metadata != state.metadata or asked:
                used = features.features_in_use(schema, {**metadata.configuration, **asked})
                protocol = features.upgraded(protocol, used)
        if domains:
            protocol = features.upgraded(protocol, [features.DOMAIN_METADATA])
        protocol = features.upgraded(protocol, self._features)
        protocol = features.with_versions(protocol, *self._versions)
        new_protocol = None if state is not None and protocol == state.protocol else protocol
        new_metadata = None if state is not None and metadata == state.metadata else metadata
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
            domains=domains,
            generated_identity=self._generated_identity(schema),
        )

    def _domain_actions(self, state: TableState | None) -> dict[str, DomainMetadata]:
        known = {} if state is None else state.domain_metadata
        return {
            name: action
            for name, action in self._domains.items()
            if not action.removed or name in known
        }

    def _generated_identity(self, schema: StructType) -> tuple[str, ...]:
        """Identity columns that the rows don't bring."""
        brought = self._schema
        if brought is None or any(identity_of(f) is not None for f in brought):
            return tuple(f.name for f in schema if identity_of(f) is not None)
        return tuple(
            f.name for f in schema if identity_of(f) is not None and brought.get(f.name) is None
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
    ) -> tuple[Metadata, StructType, dict[str, str]]:
        """Metadata and schema, and the features that properties ask for."""
        columns = self._partition_columns or ()
        check_new_table(self._table, schema, columns, mapped=_is_mapped(configuration))
        schema, configuration = with_column_ids(self._table, schema, configuration, None)
        if properties.ROW_TRACKING.read(configuration):
            configuration = {**configuration, **_row_tracking_columns()}
        kept, asked = _without_feature_keys(configuration)
        metadata = Metadata(
            id=str(uuid.uuid4()),
            schema_string=schema.to_json(),
            partition_columns=list(columns),
            created_time=time.time_ns() // 1_000_000,
            configuration=kept,
        )
        return metadata, schema, asked

    def _updated(
        self, state: TableState, configuration: dict[str, str]
    ) -> tuple[Metadata, StructType, dict[str, str]]:
        """Metadata and schema, and the features that properties ask for."""
        given = self._partition_columns
        if given is not None and given != state.partition_columns:
            raise SchemaError(
                f"{self._table} is partitioned by ({', '.join(state.partition_columns)}), not by "
                f"({', '.join(given)}); the partitioning of an existing table stays.",
                table=self._table,
            )
        merged = {
            key: value
            for key, value in {**state.properties, **configuration}.items()
            if key not in self._removed_properties
        }
        merged, asked = _without_feature_keys(merged)
        _check_changed_properties(state, merged)
        schema = state.schema
        if self._schema is not None and self._schema_evolution:
            schema = merge_schemas(self._table, schema, self._schema, mapped=_is_mapped(merged))
        elif self._schema is not None:
            check_fits(self._table, schema, self._schema)
        schema, merged = with_column_ids(self._table, schema, merged, state.properties)
        metadata = state.metadata
        if schema != state.schema:
            metadata = msgspec.structs.replace(metadata, schema_string=schema.to_json())
        if merged != metadata.configuration:
            metadata = msgspec.structs.replace(metadata, configuration=merged)
        return metadata, schema, asked


def _is_mapped(configuration: Mapping[str, str]) -> bool:
    return properties.COLUMN_MAPPING_MODE.read(configuration) != "none"


def _row_tracking_columns() -> dict[str, str]:
    return {
        "delta.rowTracking.materializedRowIdColumnName": f"_row-id-col-{uuid.uuid4()}",
        "delta.rowTracking.materializedRowCommitVersionColumnName": (
            f"_row-commit-version-col-{uuid.uuid4()}"
        ),
    }


def _check_changed_properties(state: TableState, after: Mapping[str, str]) -> None:
    """What an existing table can't be given, or lose, by a property alone."""
    before = state.properties
    if properties.ROW_TRACKING.read(after) and not properties.ROW_TRACKING.read(before):
        raise UnsupportedFeatureError(
            f"{state.path} has no row tracking, and enabling it on an existing table gives ids to "
            "all of its files (a backfill), which this version of Bayou doesn't do. Enable it with "
            "delta-spark, or make a new table with it.",
            table=state.path,
            features=[features.ROW_TRACKING],
        )
    kept = {name for name, _ in column_rules.check_constraints(before).items()}
    new = [name for name in column_rules.check_constraints(after) if name not in kept]
    if new:
        raise TablePropertyError(
            f"{state.path}: a CHECK constraint ({new[0]}) can't be set as a property of a table "
            "that may have rows: they must be checked first, which this version of Bayou doesn't "
            "do. Add it with delta-spark's ALTER TABLE ... ADD CONSTRAINT, or make a new table "
            "with it.",
            table=state.path,
            key=f"{features.CONSTRAINT_PREFIX}{new[0]}",
        )


def _without_feature_keys(
    configuration: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Properties that are kept, and those (`delta.feature.*`) that ask for a feature only."""
    prefix = features.FEATURE_PREFIX
    asking = {k: v for k, v in configuration.items() if k.startswith(prefix)}
    return {k: v for k, v in configuration.items() if k not in asking}, asking


_USED_IN_WRITES = (
    properties.APPEND_ONLY,
    properties.IN_COMMIT_TIMESTAMPS,
    properties.ROW_TRACKING,
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
