"""Commits to a managed table: ratified by the catalog, then published in the table's log.

Both steps are specified in PROTOCOL.md (Catalog-managed tables) and in Unity Catalog's
`api/delta.yaml` (`updateTable`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayou.errors import (
    CatalogError,
    CommitFailedError,
    CorruptTableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from bayou.kernel.catalog import RatifiedCommit, RatifiedCommits
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.transaction.committers import publish_ratified, stage_commit
from bayou.protocol.file_names import LOG_DIRECTORY, STAGED_COMMIT_DIRECTORY, commit_file_name
from bayou.unity.client import (
    ALREADY_EXISTS,
    COMMIT_CONFLICT,
    REQUIREMENT_CONFLICT,
    TOO_MANY_COMMITS,
    UnityClient,
)
from bayou.unity.names import TableName
from bayou.unity.table_metadata import MetadataChange, in_commit_timestamp
from bayou.unity.wire import Commit, LoadedTable, StagingTable

_PUBLISH_TRIES = 3
_MAINTENANCE: Mapping[str, str] = {
    "OPTIMIZE": "DATA_REORGANIZATION",
    "REORG": "DATA_REORGANIZATION",
    "VACUUM": "DATA_CLEANUP",
    "LOG CLEANUP": "METADATA_CLEANUP",
}
"""Maps the kernel's names of maintenance operations to the names in Unity Catalog's API."""


class UnityCatalog:
    """The `MaintainingCatalog` of one managed table in Unity Catalog.

    Args:
        name: name of the table.
        table_id: id of the table. If a table is dropped and created again, its id changes.
        staging: for a new table, the staging table with the reserved id and location. The first
            commit creates the table. None if the table exists.
    """

    def __init__(
        self,
        client: UnityClient,
        name: TableName,
        table_id: str,
        staging: StagingTable | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._table_id = table_id
        self._staging = staging

    def __repr__(self) -> str:
        return f"UnityCatalog({str(self._name)!r})"

    @property
    def is_created(self) -> bool:
        """Whether the catalog has the table."""
        return self._staging is None

    def ratified_commits(self, table: str, end_version: int | None = None) -> RatifiedCommits:
        """Return the ratified commits of the table that aren't published yet.

        The argument `table` isn't used, because this object is the catalog of a single table.
        """
        loaded = self._load()
        assert loaded.latest_table_version is not None  # checked by `_load`
        commits = sorted(loaded.commits or (), key=lambda commit: commit.version)
        return RatifiedCommits(
            latest_version=loaded.latest_table_version,
            commits=tuple(
                self._ratified(commit)
                for commit in commits
                if end_version is None or commit.version <= end_version
            ),
        )

    def commit(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        """Commit to the table; return False if the version already has another commit.

        The first commit of a new table is written directly to the log, and creates the table in the
        catalog. All later commits are staged, and then ratified by the catalog.
        """
        if self._staging is not None:
            self._create(engine, table, lines, self._staging)
            return True
        staged = stage_commit(engine, table, version, lines)
        assert staged.path is not None  # `stage_commit` writes a file
        path = f"{table}/{LOG_DIRECTORY}/{STAGED_COMMIT_DIRECTORY}/{staged.path}"
        status = engine.files.status(path)
        commit = {
            "version": version,
            "timestamp": in_commit_timestamp(lines),
            "file-name": staged.path,
            "file-size": status.size,
            "file-modification-timestamp": status.modification_time,
        }
        updates: list[Mapping[str, object]] = [{"action": "add-commit", "commit": commit}]
        change = MetadataChange.of_commit(lines)
        if change:
            updates += change.updates(self._load().metadata, removes=True)
        for tried in range(1, _PUBLISH_TRIES + 1):
            try:
                self._client.update_table(self._name, self._table_id, updates)
                return True
            except CatalogError as error:
                if error.code == COMMIT_CONFLICT:
                    return False
                if error.code == REQUIREMENT_CONFLICT:
                    raise self._recreated() from error
                if error.code != TOO_MANY_COMMITS and error.is_refusal:
                    raise CommitFailedError(
                        f"{error.message} Nothing was committed.",
                        table=table,
                        version=version,
                    ) from error
                if error.code != TOO_MANY_COMMITS or tried == _PUBLISH_TRIES:
                    raise
            publish_ratified(engine, table, self)
        return False

    def published(self, table: str, version: int) -> None:
        """Report to the catalog that the commits up to `version` are in the table's log."""
        update = {"action": "set-latest-backfilled-version", "latest-published-version": version}
        self._client.update_table(self._name, self._table_id, [update])

    def permits_maintenance(self, table: str, operation: str) -> bool:
        """Whether the catalog lets clients run an operation such as `VACUUM` on the table."""
        permitted = self._load().allowed_maintenance_operations or ()
        return _MAINTENANCE.get(operation) in permitted

    def _load(self) -> LoadedTable:
        if self._staging is not None:
            raise TableNotFoundError(
                f"{self._name}: the table doesn't exist yet. Write rows to create it.",
                table=str(self._name),
            )
        loaded = self._client.load_table(self._name)
        if loaded.metadata.table_uuid != self._table_id or not loaded.is_managed:
            raise self._recreated()
        return loaded

    def _ratified(self, commit: Commit) -> RatifiedCommit:
        if "/" in commit.file_name:
            raise CorruptTableError(
                f"{self._name}: the catalog's entry of version {commit.version} has the commit "
                f"file {commit.file_name!r}, which isn't a valid file name. Correct the "
                "catalog's entry.",
                table=str(self._name),
                file=commit.file_name,
            )
        return RatifiedCommit(
            version=commit.version,
            path=commit.file_name,
            modification_time=commit.file_modification_timestamp,
        )

    def _recreated(self) -> TableNotFoundError:
        return TableNotFoundError(
            f"{self._name}: the table was dropped, and another table was created with this name. "
            "Open the table again.",
            table=str(self._name),
        )

    def _create(
        self, engine: Engine, table: str, lines: Sequence[bytes], staging: StagingTable
    ) -> None:
        """Write the first commit to the log and create the table in the catalog."""
        path = f"{table}/{LOG_DIRECTORY}/{commit_file_name(0)}"
        engine.files.mkdirs(path.rpartition("/")[0])
        if not engine.json.write_json_file_atomically(path, lines):
            written = bytes(next(iter(engine.files.read_files([ByteRange(path=path)]))))
            if written.splitlines() != list(lines):
                raise CorruptTableError(
                    f"{self._name}: the catalog assigned the location {table} to the new table, "
                    "but this location already has a log. Repeat the write: the catalog then "
                    "assigns another location.",
                    table=table,
                    file=path,
                )
        body = MetadataChange.of_commit(lines).create_body(
            self._name.table, staging.location, "MANAGED", in_commit_timestamp(lines)
        )
        try:
            self._client.create_table(self._name, body)
        except CatalogError as error:
            if error.code == ALREADY_EXISTS:
                raise TableAlreadyExistsError(
                    f"{self._name}: another writer created the table concurrently. The rows of "
                    "this write aren't in the table. Repeat the write.",
                    table=str(self._name),
                ) from error
            if not self._was_created(error):
                raise CommitFailedError(
                    f"{error.message} The table wasn't created.", table=str(self._name), version=0
                ) from error
        self._staging = None

    def _was_created(self, error: CatalogError) -> bool:
        """Return whether a failed `create_table` request has created the table nevertheless.

        If the error has an HTTP status below 500, the table wasn't created. Otherwise the method
        looks up the table in the catalog.

        Args:
            error: the error of the request.

        Raises:
            CommitFailedError: the lookup failed, so it is unknown whether the table was created.
        """
        if error.status is not None and error.status < 500:
            return False
        try:
            found = self._client.find_table(self._name)
        except CatalogError:
            raise CommitFailedError(
                f"{error.message} It is unknown whether the table was created; look it up in the "
                "catalog before you repeat the write.",
                table=str(self._name),
                version=0,
            ) from error
        return found is not None and found.metadata.table_uuid == self._table_id
