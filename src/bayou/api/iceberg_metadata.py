"""The Iceberg metadata of a table: conversion, comparison, registration in a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from bayou.api.optional_packages import missing_extra
from bayou.errors import ArgumentError, CatalogError, UniversalFormatError
from bayou.kernel import Engine, Table
from bayou.kernel.iceberg.comparison import IcebergStatus, iceberg_lag, iceberg_status
from bayou.kernel.iceberg.delta_to_iceberg import Conversion, convert
from bayou.kernel.iceberg.metadata_folder import location

__all__ = ["IcebergMetadata"]


class IcebergMetadata:
    """Iceberg metadata of a table with `delta.universalFormat.enabledFormats = 'iceberg'`.

    `bayou.table(path).iceberg` returns this object. Each commit also writes the Iceberg metadata of
    its version.

    Examples:
        >>> bayou.table("lake/customers").iceberg.status().lag
        0
    """

    __slots__ = ("_engine", "_table")

    def __init__(self, engine: Engine, table: Table) -> None:
        self._engine = engine
        self._table = table

    def sync(self, *, full: bool = False) -> Conversion:
        """Write the Iceberg metadata that is missing, for example after a failed conversion.

        The call can be repeated at any time, also while other writers commit.

        Args:
            full: whether to convert the whole table again, as one Iceberg snapshot.

        Raises:
            UniversalFormatError: conversion to Iceberg isn't enabled, or the table can't be
                converted.

        Examples:
            >>> bayou.table("lake/customers").iceberg.sync().version
        """
        return convert(self._engine, self._table.path, catalog=self._table.catalog, full=full)

    def status(self) -> IcebergStatus | None:
        """Compare the Iceberg metadata with the Delta log.

        Returns:
            None if conversion to Iceberg isn't enabled.

        Examples:
            >>> bayou.table("lake/customers").iceberg.status().problems
            ()
        """
        return iceberg_status(self._engine, self._table.path, catalog=self._table.catalog)

    def lag(self) -> int | None:
        """Return the number of versions that weren't converted to Iceberg yet.

        Returns:
            None if conversion to Iceberg isn't enabled.

        Examples:
            >>> bayou.table("lake/customers").iceberg.lag()
            0
        """
        return iceberg_lag(self._engine, self._table.path, catalog=self._table.catalog)

    def register(
        self,
        identifier: str,
        catalog: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Register the newest metadata in an Iceberg catalog, and return the metadata's location.

        If the table is already registered, the catalog's entry is updated. Repeat the call after
        commits, because an Iceberg catalog doesn't notice new metadata files.

        Args:
            identifier: name of the table in the catalog, such as `sales.customers`.
            catalog: name of a catalog in the configuration of pyiceberg; None for the default
                catalog.
            properties: properties of the catalog, in addition to pyiceberg's configuration.

        Raises:
            CatalogError: the catalog failed.
            UniversalFormatError: the table has no Iceberg metadata.

        Examples:
            >>> catalog = {"type": "sql", "uri": "sqlite:///catalog.db"}
            >>> bayou.table("lake/customers").iceberg.register("sales.customers", None, catalog)
        """
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
        except ImportError as error:
            raise missing_extra("iceberg", "iceberg.register") from error
        if "." not in identifier.strip("."):
            raise ArgumentError(
                f"identifier: {identifier!r} has no namespace. Use NAMESPACE.TABLE.",
                argument="identifier",
            )
        metadata = location(self.sync().metadata_file)
        try:
            client = load_catalog(catalog, **dict(properties or {}))
            with suppress(NamespaceAlreadyExistsError):
                client.create_namespace(tuple(identifier.split(".")[:-1]))
            try:
                client.register_table(identifier, metadata)
            except TableAlreadyExistsError:
                registered = client.load_table(identifier)
                if registered.metadata.location.rstrip("/") != location(self._table.path):
                    raise UniversalFormatError(
                        f"{self._table.path}: the catalog has another table named {identifier!r}, "
                        f"at {registered.metadata.location}. Use another name.",
                        table=self._table.path,
                    ) from None
                if registered.metadata_location != metadata:
                    client.drop_table(identifier)  # only the entry: no file is deleted
                    client.register_table(identifier, metadata)
        except (ArgumentError, UniversalFormatError):
            raise
        except Exception as error:
            raise CatalogError(
                f"{self._table.path}: the Iceberg catalog {catalog or 'default'} failed: "
                f"{str(error).rstrip('.')}. Check pyiceberg's configuration and the catalog's "
                "server.",
                path=identifier,
            ) from error
        return metadata
