"""Resolves names of Unity Catalog to tables, and registers external tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayou.engines import for_path
from bayou.errors import ArgumentError, BayouError, CatalogError
from bayou.kernel import Engine, Snapshot, Table
from bayou.unity.catalog import UnityCatalog
from bayou.unity.client import ALREADY_EXISTS, UnityClient
from bayou.unity.engine import engine_options, unity_engine, vended_engine
from bayou.unity.names import TableName
from bayou.unity.settings import unity_settings, without_settings
from bayou.unity.table_metadata import MetadataChange
from bayou.unity.wire import LoadedTable, StagingTable

_FEATURE = "delta.feature."


@dataclass(frozen=True, slots=True, kw_only=True)
class UnityTable:
    """A table of the catalog, or a new table that a write creates.

    Attributes:
        engine: the engine for the table's files.
        table: the kernel's `Table` for the location of the table.
        properties: properties that the catalog requires for a new managed table; otherwise empty.
        is_external: whether the table is external. `after_commit` then updates the catalog entry.
    """

    client: UnityClient
    name: TableName
    engine: Engine
    table: Table
    properties: Mapping[str, str]
    is_external: bool

    def after_commit(self) -> None:
        """Register an external table, or update its catalog entry.

        For a managed table, the method does nothing.

        Raises:
            CatalogError: the table can't be read, or the catalog rejects the entry. The rows are
                committed nevertheless.
        """
        if self.is_external:
            try:
                snapshot = self.table.latest_snapshot(self.engine)
            except BayouError as error:
                raise CatalogError(
                    f"{self.name}: the rows are committed, but the catalog's entry isn't current, "
                    f"because the table can't be read: {error.message} Register the table with "
                    "bayou.unity.register_table instead of repeating the write.",
                    path=str(self.name),
                ) from error
            try:
                update_entry(self.client, self.name, snapshot)
            except BayouError as error:
                raise CatalogError(
                    f"{error.message} The rows are committed as version {snapshot.version} of "
                    f"{snapshot.path}, but the catalog's entry isn't current. Register the table "
                    "with bayou.unity.register_table instead of repeating the write.",
                    path=str(self.name),
                    status=error.status if isinstance(error, CatalogError) else None,
                    code=error.code if isinstance(error, CatalogError) else None,
                ) from error


def open_table(uri: str, options: Mapping[str, str]) -> UnityTable:
    """Resolve the name of an existing table.

    Args:
        options: storage options; `UC_URI` and `UC_TOKEN` are the catalog's URL and token.

    Raises:
        TableNotFoundError: the catalog has no such table.
        CatalogError: the request failed.
    """
    name = TableName.parse(uri)
    client = UnityClient(unity_settings(options))
    return _existing(client, name, options, client.load_table(name))


def open_for_write(
    uri: str, options: Mapping[str, str], location: str | None, properties: Mapping[str, str]
) -> UnityTable:
    """Resolve the name of a table for a write. The table need not exist.

    Args:
        uri: `uc://catalog.schema.table`.
        options: storage options; `UC_URI` and `UC_TOKEN` are the catalog's URL and token.
        location: the location of an external table. If `location` is None and the table doesn't
            exist, the write creates a managed table.
        properties: the table properties that the user has specified. They are checked only for a
            new managed table.

    Raises:
        ArgumentError: `location` is set, but the existing table is managed or has another location.
            For a new managed table, the error means that the catalog requires another value of a
            property.
    """
    name = TableName.parse(uri)
    client = UnityClient(unity_settings(options))
    loaded = client.find_table(name)
    if loaded is not None:
        found = _existing(client, name, options, loaded)
        if location is not None:
            _check_location(name, loaded, _absolute(found.engine, location))
        return found
    if location is not None:
        return _new_external(client, name, options, location)
    staging = client.create_staging_table(name)
    required = _required_properties(staging)
    for key, value in required.items():
        if properties.get(key, value) != value:
            raise ArgumentError(
                f"{name}: for a managed table, the catalog requires {key} = {value}, but the "
                f"property is {properties[key]!r}. Remove the property.",
                argument="configuration",
            )
    return _new_managed(client, name, options, staging, required)


def register_table(
    name: str, location: str, storage_options: Mapping[str, str] | None = None
) -> None:
    """Register an existing Delta table as an external table in Unity Catalog.

    If the table is already registered, its catalog entry is updated.

    Args:
        name: `uc://catalog.schema.table`.
        location: the table's path or URI.
        storage_options: see `bayou.table`. If the options have no credentials, the table is read
            with credentials from the environment.

    Raises:
        TableNotFoundError: the location has no Delta table, or the catalog or schema doesn't exist.
        ArgumentError: the name belongs to a managed table, or to a table at another location.
        CatalogError: the catalog rejects the entry.

    Example:
        >>> register_table("uc://main.shop.orders", "s3://lake/orders")  # doctest: +SKIP
    """
    options = dict(storage_options or {})
    client = UnityClient(unity_settings(options))
    engine = for_path(location, without_settings(options))
    snapshot = Table.for_path(engine, location).latest_snapshot(engine)
    update_entry(client, TableName.parse(name), snapshot)


def update_entry(client: UnityClient, name: TableName, snapshot: Snapshot) -> None:
    """Create the catalog entry of an external table, or update it.

    An update changes the columns, the protocol and the properties of the entry. Properties of the
    entry that aren't properties of the table remain.

    Raises:
        ArgumentError: the name belongs to a managed table, or to a table at another location.
        CatalogError: the catalog rejects the entry.
    """
    change = MetadataChange.of_table(snapshot)
    location = _uri(snapshot.path)
    loaded = client.find_table(name)
    if loaded is None:
        body = change.create_body(name.table, location, "EXTERNAL", snapshot.timestamp)
        try:
            client.create_table(name, body)
            return
        except CatalogError as error:
            if error.code != ALREADY_EXISTS:
                raise
        loaded = client.load_table(name)  # another process has registered it
    _check_location(name, loaded, location)
    updates = change.updates(loaded.metadata, removes=False)
    if all(update["action"] == "set-table-comment" for update in updates):
        return
    version = {
        "action": "update-metadata-snapshot-version",
        "last-commit-version": snapshot.version,
        "last-commit-timestamp-ms": snapshot.timestamp,
    }
    client.update_table(name, loaded.metadata.table_uuid, [*updates, version])


def _existing(
    client: UnityClient, name: TableName, options: Mapping[str, str], loaded: LoadedTable
) -> UnityTable:
    location = loaded.metadata.location
    engine = vended_engine(
        name,
        location,
        lambda access: client.table_credentials(name, access),
        engine_options(client, name, location, options),
        factory=unity_engine,
    )
    catalog = None
    if loaded.is_managed:
        catalog = UnityCatalog(client, name, loaded.metadata.table_uuid)
    return UnityTable(
        client=client,
        name=name,
        engine=engine,
        table=Table.for_path(engine, location, catalog),
        properties={},
        is_external=loaded.metadata.table_type == "EXTERNAL",
    )


def _new_managed(
    client: UnityClient,
    name: TableName,
    options: Mapping[str, str],
    staging: StagingTable,
    properties: Mapping[str, str],
) -> UnityTable:
    catalog = UnityCatalog(client, name, staging.table_id, staging)
    engine = vended_engine(
        name,
        staging.location,
        lambda access: (
            client.table_credentials(name, access)
            if catalog.is_created
            else client.staging_credentials(name, staging.table_id)
        ),
        options,
    )
    table = Table.for_path(engine, staging.location, catalog)
    return UnityTable(
        client=client,
        name=name,
        engine=engine,
        table=table,
        properties=properties,
        is_external=False,
    )


def _new_external(
    client: UnityClient, name: TableName, options: Mapping[str, str], location: str
) -> UnityTable:
    engine = vended_engine(
        name, location, lambda _: client.path_credentials(name, location), options
    )
    table = Table.for_path(engine, location)
    return UnityTable(
        client=client, name=name, engine=engine, table=table, properties={}, is_external=True
    )


def _required_properties(staging: StagingTable) -> dict[str, str]:
    """Return the table properties that the catalog requires for a new managed table.

    Required table features are included as `delta.feature.*` properties.
    """
    protocol = staging.required_protocol
    features = [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
    return {
        **{f"{_FEATURE}{feature}": "supported" for feature in features},
        **{key: v for key, v in staging.required_properties.items() if v is not None},
    }


def _check_location(name: TableName, loaded: LoadedTable, location: str) -> None:
    """Raise `ArgumentError` if a table of the catalog isn't an external table at `location`."""
    metadata = loaded.metadata
    if metadata.table_type != "EXTERNAL":
        raise ArgumentError(
            f"{name}: the catalog has a managed table with this name. Only the catalog can set the "
            "location of a managed table. Use another name, or write to the managed table without "
            "a location.",
            argument="location",
        )
    if _comparable(metadata.location) != _comparable(location):
        raise ArgumentError(
            f"{name}: the catalog has this table at {metadata.location}, not at {location}. Use "
            "another name, or drop the table from the catalog.",
            argument="location",
        )


def _absolute(engine: Engine, location: str) -> str:
    return _uri(engine.files.resolve_path(location))


def _uri(path: str) -> str:
    return f"file://{path}" if path.startswith("/") else path


def _comparable(location: str) -> str:
    """Normalize a location for comparisons: `s3a://` becomes `s3://`, for example."""
    scheme, _, rest = location.rstrip("/").partition(":")
    if scheme in ("s3a", "s3n"):
        scheme = "s3"
    return f"{scheme}:/{rest.lstrip('/')}"
