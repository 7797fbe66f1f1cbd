"""Builder of transactions: schema, properties, protocol and other non-file changes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayou.errors import ArgumentError, ProtocolChangedError, TableNotFoundError
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import CommitSettings, Engine, commit_settings
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import OPERATIONS_WITHOUT_INSERTS, Operation
from bayou.kernel.table_features.clustering import (
    clustering_configuration,
    resolve_clustering_columns,
)
from bayou.kernel.table_features.column_dependencies import check_statistics_columns
from bayou.kernel.table_features.geospatial import check_geospatial_columns
from bayou.kernel.table_features.iceberg_compat import check_iceberg_compat
from bayou.kernel.table_features.writer_support import (
    check_catalog,
    check_change_data_columns,
    check_properties,
    check_row_tracking,
    check_schema_can_be_read,
    check_universal_format,
    check_writable,
    normalize_properties,
)
from bayou.kernel.transaction.commit_table_actions import TableUpdate
from bayou.kernel.transaction.iceberg_file_checks import check_purged
from bayou.kernel.transaction.metadata_update import (
    MetadataRequest,
    UpdatedMetadata,
    update_metadata,
)
from bayou.kernel.transaction.transaction import Transaction
from bayou.protocol import features, properties
from bayou.protocol.actions import DomainMetadata, Metadata, Protocol, UserMetadata
from bayou.protocol.actions import Transaction as TransactionIdentifier
from bayou.protocol.column_metadata import CLUSTERING_DOMAIN, identity_column
from bayou.protocol.schema import StructType
from bayou.protocol.type_widening import AutomaticWidening

_DEFAULT_RETRIES = 200
_MAINTENANCE = frozenset({Operation.OPTIMIZE, Operation.VACUUM_START, Operation.VACUUM_END})


class TransactionBuilder:
    """Builds a `Transaction`. Each `with_` method returns a new builder.

    Created by `Table.create_transaction_builder` or `Snapshot.build_update_table_transaction`.

    Examples:
        >>> builder = snapshot.build_update_table_transaction("example/1.0", Operation.WRITE)
        >>> transaction = builder.with_transaction_id("nightly", 12).build(engine)
    """

    def __init__(
        self,
        *,
        table: str,
        read_state: TableState | None,
        engine_info: str,
        operation: Operation,
        catalog: Catalog | None = None,
    ) -> None:
        self._table = table
        self._read_state = read_state
        self._catalog = catalog if read_state is None else read_state.catalog
        self._engine_info = engine_info
        self._operation = operation
        self._schema: StructType | None = None
        self._partition_columns: tuple[str, ...] | None = None
        self._properties: dict[str, str] = {}
        self._transaction_ids: dict[str, int] = {}
        self._copied_transaction_ids: dict[str, TransactionIdentifier] = {}
        self._schema_evolution = False
        self._automatic_widening = AutomaticWidening.SAME_FAMILY_TYPE
        self._max_retries: int | None = None
        self._operation_parameters: dict[str, object] = {}
        self._user_metadata: UserMetadata | None = None
        self._removed_properties: frozenset[str] = frozenset()
        self._features: tuple[str, ...] = ()
        self._versions = (0, 0)
        self._domains: dict[str, DomainMetadata] = {}
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None
        self._log_compaction_interval: int | None = None
        self._files_checked = False
        self._clustering: tuple[tuple[str, ...], ...] | None = None
        self._replaces_schema = False
        self._row_conditions: tuple[str, ...] = ()
        self._data_change = True
        self._max_records_per_file: int | None = None
        self._compression: str | None = None
        self._target_file_size: int | None = None
        self._name: str | None = None
        self._description: str | None = None
        self._records_definition = False
        self._creates_table = False

    def with_schema(self, schema: StructType) -> TransactionBuilder:
        """Set the schema of a new table, or of the rows to write to an existing table.

        Rows for an existing table must have only columns of the table, with types that can be
        written to these columns. `with_schema_evolution` also allows new columns and wider types.
        """
        builder = copy.copy(self)
        builder._schema = schema
        return builder

    def with_partition_columns(self, columns: Iterable[str]) -> TransactionBuilder:
        """Set the partition columns of a new table, or of a table whose schema is replaced.

        In other tables, partition columns can't be changed. For them, `build` raises an error if
        `columns` differ from the table's partition columns.

        Raises:
            ArgumentError: the builder was created from a snapshot, and `with_schema_replaced`
                wasn't called before.
        """
        if self._read_state is not None and not self._replaces_schema:
            raise ArgumentError(
                f"{self._table}: partition columns can't be set, because the table already "
                "exists. Remove the call of with_partition_columns.",
                argument="columns",
            )
        builder = copy.copy(self)
        builder._partition_columns = tuple(columns)
        return builder

    def with_clustering_columns(self, columns: Iterable[str | Sequence[str]]) -> TransactionBuilder:
        """Set the clustering columns (PROTOCOL.md, Clustered Table).

        Args:
            columns: names, or paths of fields in structs; at most four. If empty, clustering is
                removed.
        """
        builder = copy.copy(self)
        builder._clustering = tuple((c,) if isinstance(c, str) else tuple(c) for c in columns)
        return builder

    def with_table_properties(self, configuration: Mapping[str, str]) -> TransactionBuilder:
        """Add or change table properties (PROTOCOL.md, Table Properties)."""
        builder = copy.copy(self)
        builder._properties = {**self._properties, **configuration}
        return builder

    def with_table_properties_removed(self, keys: Iterable[str]) -> TransactionBuilder:
        """Unset table properties. Properties that the table doesn't have are ignored."""
        builder = copy.copy(self)
        builder._removed_properties = self._removed_properties | frozenset(keys)
        return builder

    def with_name(self, name: str | None) -> TransactionBuilder:
        """Set the table's name (PROTOCOL.md, Change Metadata).

        If `name` is None, the name isn't changed. An empty string removes it.
        """
        builder = copy.copy(self)
        builder._name = name
        return builder

    def with_description(self, description: str | None) -> TransactionBuilder:
        """Set the table's description (PROTOCOL.md, Change Metadata).

        If `description` is None, the description isn't changed. An empty string removes it.
        """
        builder = copy.copy(self)
        builder._description = description
        return builder

    def with_definition_recorded(self) -> TransactionBuilder:
        """Write the table's definition to the commit's `operationParameters`.

        The definition consists of the table's description, partition columns, clustering columns
        and properties.
        """
        builder = copy.copy(self)
        builder._records_definition = True
        return builder

    def with_features(self, names: Iterable[str]) -> TransactionBuilder:
        """Add table features to the protocol (PROTOCOL.md, Table Features)."""
        builder = copy.copy(self)
        builder._features = (*self._features, *names)
        return builder

    def with_protocol_versions(self, reader: int = 0, writer: int = 0) -> TransactionBuilder:
        """Upgrade the protocol to at least these versions.

        When the writer version becomes 7, the features that the old version implied are listed in
        the protocol.
        """
        if not (0 <= reader <= 3 and 0 <= writer <= 7):
            raise ArgumentError(
                f"{self._table}: protocol versions ({reader}, {writer}) don't exist. Use reader "
                "versions 1 to 3 and writer versions 1 to 7.",
                argument="reader" if not 0 <= reader <= 3 else "writer",
            )
        builder = copy.copy(self)
        builder._versions = (reader, writer)
        return builder

    def with_domain_metadata(self, domain: str, configuration: str) -> TransactionBuilder:
        """Set a domain's configuration, a string of up to 50 MB (PROTOCOL.md, Domain Metadata).

        Raises:
            ArgumentError: the domain is empty or reserved for Delta (`delta.`).
        """
        return self._with_domain(
            DomainMetadata(domain=domain, configuration=configuration, removed=False)
        )

    def with_domain_metadata_removed(self, domain: str) -> TransactionBuilder:
        """Remove a domain. If the table doesn't have the domain, no action is written for it."""
        return self._with_domain(DomainMetadata(domain=domain, configuration="", removed=True))

    def with_metadata(self, metadata: Metadata) -> TransactionBuilder:
        """Replace the table's `metaData` action by `metadata`.

        The builder's other changes are applied to `metadata`.

        The caller must have checked that the table's files can be read with the new metadata.
        """
        builder = copy.copy(self)
        builder._metadata = metadata
        return builder

    def with_files_checked(self) -> TransactionBuilder:
        """Declare that the caller has checked all live files.

        If the transaction adds constraints, the caller guarantees that the existing rows satisfy
        them. If it enables row tracking, the caller guarantees that the files have row ids.
        """
        builder = copy.copy(self)
        builder._files_checked = True
        return builder

    def with_protocol(self, protocol: Protocol) -> TransactionBuilder:
        """Replace the table's `protocol` action by `protocol`.

        The builder's other changes are applied to `protocol`.

        If the current protocol has features that `protocol` doesn't have, the caller must have
        checked that the table doesn't use these features.
        """
        builder = copy.copy(self)
        builder._protocol = protocol
        return builder

    def with_delta_domain(self, domain: str, configuration: str | None) -> TransactionBuilder:
        """Set a reserved (`delta.`) domain's configuration; if None, the domain is removed."""
        action = DomainMetadata(
            domain=domain, configuration=configuration or "", removed=configuration is None
        )
        builder = copy.copy(self)
        builder._domains = {**self._domains, domain: action}
        return builder

    def _with_domain(self, action: DomainMetadata) -> TransactionBuilder:
        if not action.domain or action.domain.lower().startswith("delta."):
            raise ArgumentError(
                f"{self._table}: domain {action.domain!r} can't be set. Use a non-empty name that "
                "doesn't start with 'delta.', which is reserved.",
                argument="domain",
            )
        builder = copy.copy(self)
        builder._domains = {**self._domains, action.domain: action}
        return builder

    def with_table_created(self) -> TransactionBuilder:
        """Require that the transaction creates the table.

        If another writer creates the table before `build` is called, `build` raises
        `ProtocolChangedError`.
        """
        builder = copy.copy(self)
        builder._creates_table = True
        return builder

    def with_transaction_id(self, app_id: str, version: int) -> TransactionBuilder:
        """Add a transaction identifier (`txn` action) to the commit. May be called for several ids.

        If the table has already recorded `version` or a higher number for `app_id`, the commit
        writes nothing, and its result has `already_committed=True`.
        """
        if not app_id:
            raise ArgumentError(
                f"{self._table}: the application id is empty. Use a non-empty id.",
                argument="app_id",
            )
        builder = copy.copy(self)
        builder._transaction_ids = {**self._transaction_ids, app_id: version}
        return builder

    def with_copied_transaction_ids(
        self, identifiers: Iterable[TransactionIdentifier]
    ) -> TransactionBuilder:
        """Write the transaction identifiers of another table unchanged.

        The commit is written even if the table has already recorded a higher version for an
        application id. This differs from `with_transaction_id`.
        """
        builder = copy.copy(self)
        builder._copied_transaction_ids = {t.app_id: t for t in identifiers}
        return builder

    def with_schema_evolution(
        self,
        enabled: bool = True,
        *,
        automatic_widening: AutomaticWidening = AutomaticWidening.SAME_FAMILY_TYPE,
    ) -> TransactionBuilder:
        """Allow rows with additional columns, which are added to the table as nullable columns.

        Args:
            automatic_widening: type changes that schema evolution may make in a table with type
                widening.
        """
        builder = copy.copy(self)
        builder._schema_evolution = enabled
        builder._automatic_widening = automatic_widening
        return builder

    def with_schema_replaced(self) -> TransactionBuilder:
        """Replace schema and partition columns of an existing table.

        If `with_partition_columns` isn't called, the table becomes unpartitioned. The commit must
        remove all files, because they have the old schema.
        """
        builder = copy.copy(self)
        builder._replaces_schema = True
        return builder

    def with_row_condition(self, condition: str) -> TransactionBuilder:
        """Add a SQL condition. The write fails if the condition is false or null for a row."""
        builder = copy.copy(self)
        builder._row_conditions = (*self._row_conditions, condition)
        return builder

    def with_data_change(self, data_change: bool) -> TransactionBuilder:
        """Set `dataChange` of the written files; pass False if the commit only rewrites rows."""
        builder = copy.copy(self)
        builder._data_change = data_change
        return builder

    def with_max_records_per_file(self, rows: int | None) -> TransactionBuilder:
        """Set the maximum number of rows of a data file; if None, only its size is limited."""
        if rows is not None and rows < 1:
            raise ArgumentError(
                f"{self._table}: {rows} isn't a valid maximum number of rows of a data file. Use "
                "1 or more.",
                argument="rows",
            )
        builder = copy.copy(self)
        builder._max_records_per_file = rows
        return builder

    def with_compression(self, codec: str | None) -> TransactionBuilder:
        """Set the Parquet codec of this transaction's files; if None, the table's codec is used."""
        builder = copy.copy(self)
        builder._compression = codec
        return builder

    def with_target_file_size(self, size: int | None) -> TransactionBuilder:
        """Set the size in bytes after which this transaction starts a new data file.

        If None, the size is `delta.targetFileSize`. If the table doesn't have this property, the
        size is 128 MB.
        """
        builder = copy.copy(self)
        builder._target_file_size = size
        return builder

    def with_max_retries(self, retries: int) -> TransactionBuilder:
        """Set how many times a commit is retried if other writers commit first; default 200."""
        if retries < 0:
            raise ArgumentError(
                f"{self._table}: {retries} isn't a valid number of retries. Use 0 or more.",
                argument="retries",
            )
        builder = copy.copy(self)
        builder._max_retries = retries
        return builder

    def with_log_compaction_interval(self, commits: int | None) -> TransactionBuilder:
        """Add a post-commit hook that writes a log compaction file every `commits` commits.

        If None (the default), no such files are written (PROTOCOL.md, Log Compaction Files).
        """
        if commits is not None and commits < 2:
            raise ArgumentError(
                f"{self._table}: {commits} isn't a valid log compaction interval. Use 2 or more.",
                argument="commits",
            )
        builder = copy.copy(self)
        builder._log_compaction_interval = commits
        return builder

    def with_operation_parameters(self, parameters: Mapping[str, object]) -> TransactionBuilder:
        """Add entries to `commitInfo.operationParameters`."""
        builder = copy.copy(self)
        builder._operation_parameters = {**self._operation_parameters, **parameters}
        return builder

    def with_user_metadata(self, user_metadata: UserMetadata | None) -> TransactionBuilder:
        """Set `commitInfo.userMetadata`; if None, the engine's value is used (`CommitDefaults`).

        If `user_metadata` is a mapping, its entries are added to `commitInfo` instead.
        """
        builder = copy.copy(self)
        builder._user_metadata = user_metadata
        return builder

    def build(self, engine: Engine) -> Transaction:
        """Start the transaction. Loads the table if the builder wasn't created from a snapshot.

        Raises:
            TableNotFoundError: the table doesn't exist, and no schema for a new table was set.
            SchemaError: schema or partition columns are invalid, or don't match the existing table.
            TablePropertyError: a property is unknown or has an invalid value.
            UnsupportedFeatureError: the table requires an unsupported writer feature.
            ProtocolChangedError: `with_table_created` is set, and another writer has created the
                table.
        """
        settings = commit_settings(engine)
        state = self._read_state
        if state is None:
            try:
                state = load_table_state(engine, self._table, catalog=self._catalog)
            except TableNotFoundError:
                if self._schema is None and self._metadata is None:
                    raise
        if state is not None and self._creates_table:
            raise ProtocolChangedError(
                f"{self._table}: another writer created the table in the meantime (version "
                f"{state.version}). Nothing was committed to the table. Read the table and repeat "
                "the operation.",
                table=self._table,
                winning_version=state.version,
            )
        change = update_metadata(self._table, state, self._request())
        metadata, schema = change.metadata, change.schema
        domains = self._domain_actions(state)
        protocol = self._next_protocol(state, change)
        if self._clustering is not None:
            domains[CLUSTERING_DOMAIN] = self._clustering_action(metadata, schema)
            protocol = features.with_features(protocol, [features.CLUSTERING])
        if domains:
            protocol = features.with_features(protocol, [features.DOMAIN_METADATA])
        protocol = features.with_features(protocol, self._features)
        protocol = features.with_versions(protocol, *self._versions)
        new_protocol = None if state is not None and protocol == state.protocol else protocol
        new_metadata = None if state is not None and metadata == state.metadata else metadata
        check_writable(self._table, protocol, metadata, schema)
        check_properties(self._table, metadata.configuration)
        check_iceberg_compat(
            self._table,
            state,
            protocol=protocol,
            metadata=metadata,
            schema=schema,
            operation=self._operation,
        )
        if not self._replaces_schema:
            check_purged(engine, self._table, state, metadata.configuration, self._operation)
        check_universal_format(self._table, metadata.configuration, self._operation)
        check_catalog(
            self._table,
            state,
            protocol=protocol,
            configuration=metadata.configuration,
            catalog=self._catalog,
            operation=self._operation,
        )
        if new_metadata is not None:
            check_schema_can_be_read(self._table, new_metadata)
            check_geospatial_columns(self._table, schema)
            check_change_data_columns(self._table, metadata.configuration, schema)
            check_row_tracking(self._table, state, metadata.configuration, schema)
            key = properties.SKIPPING_COLUMNS.key
            previous = None if state is None else state.properties.get(key)
            if metadata.configuration.get(key) != previous:
                check_statistics_columns(
                    self._table, schema, metadata.partition_columns, metadata.configuration
                )
        return Transaction(
            TableUpdate(
                table=self._table,
                read_state=state,
                catalog=self._catalog,
                protocol=new_protocol,
                metadata=new_metadata,
                schema=schema,
                partition_columns=tuple(metadata.partition_columns),
                configuration=metadata.configuration,
                transaction_ids=self._identifiers(settings),
                copied_transaction_ids=self._copied_transaction_ids,
                operation=self._operation,
                operation_parameters={
                    **self._operation_parameters,
                    **(self._definition(metadata) if self._records_definition else {}),
                },
                engine_info=self._engine_info,
                user_metadata=_first(self._user_metadata, settings.user_metadata),
                max_retries=_first(self._max_retries, settings.max_retries, _DEFAULT_RETRIES),
                domains=domains,
                generated_identity=self._generated_identity(schema),
                log_compaction_interval=self._log_compaction_interval,
                row_conditions=self._row_conditions,
                data_change=self._data_change,
                max_records_per_file=self._max_records_per_file,
                compression=_first(self._compression, settings.compression),
                target_file_size=self._target_file_size,
            )
        )

    def _identifiers(self, settings: CommitSettings) -> dict[str, int]:
        defaults = {} if self._operation in _MAINTENANCE else settings.transaction_ids
        return {**defaults, **self._transaction_ids}

    def _request(self) -> MetadataRequest:
        return MetadataRequest(
            schema=self._schema,
            evolves=self._schema_evolution,
            automatic_widening=self._automatic_widening,
            replaces=self._replaces_schema,
            partition_columns=self._partition_columns,
            set_properties=normalize_properties(self._table, self._properties),
            removed_properties=self._removed_properties,
            metadata=self._metadata,
            files_checked=self._files_checked,
            name=self._name,
            description=self._description,
        )

    def _definition(self, metadata: Metadata) -> dict[str, object]:
        clustering = [".".join(path) for path in self._clustering or ()]
        return {
            "description": metadata.description,
            "partitionBy": _json(metadata.partition_columns),
            "clusterBy": _json(clustering),
            "properties": _json(metadata.configuration),
        }

    def _next_protocol(self, state: TableState | None, change: UpdatedMetadata) -> Protocol:
        configuration = {**change.metadata.configuration, **change.protocol_properties}
        protocol = self._protocol or (None if state is None else state.protocol)
        if protocol is None:
            return features.protocol_for(change.schema, configuration)
        if state is None or change.metadata != state.metadata or change.protocol_properties:
            used = features.features_in_use(change.schema, configuration, protocol)
            return features.with_requested_versions(
                features.with_features(protocol, used), configuration
            )
        return protocol

    def _domain_actions(self, state: TableState | None) -> dict[str, DomainMetadata]:
        existing = {} if state is None else state.domain_metadata
        return {
            name: action
            for name, action in self._domains.items()
            if not action.removed or name in existing
        }

    def _clustering_action(self, metadata: Metadata, schema: StructType) -> DomainMetadata:
        columns = resolve_clustering_columns(
            self._table,
            schema,
            metadata.configuration,
            metadata.partition_columns,
            self._clustering or (),
        )
        configuration = clustering_configuration(schema, columns)
        return DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=configuration, removed=False)

    def _generated_identity(self, schema: StructType) -> tuple[str, ...]:
        if self._operation in OPERATIONS_WITHOUT_INSERTS:
            return ()
        rows = self._schema
        if rows is None or any(identity_column(f) is not None for f in rows):
            return tuple(f.name for f in schema if identity_column(f) is not None)
        return tuple(
            f.name for f in schema if identity_column(f) is not None and rows.get(f.name) is None
        )


def _first(*values: Any) -> Any:
    """Return the first value that isn't None."""
    return next((value for value in values if value is not None), None)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
