"""Rules of `TableMachine` that change a table's schema and properties."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from bayou.kernel import Operation, Snapshot
from bayou.kernel.commands.alter.columns import drop_columns, rename_column
from bayou.kernel.commands.alter.properties import set_properties
from support.table_history import INFO, WRITERS, TableHistory
from support.table_model import Effect
from support.table_rows import COLUMNS, schema_of

__all__ = ["AlterationRules"]

_MOST_COLUMNS = len(COLUMNS) + 3

_CHANGES = (
    ("delta.enableDeletionVectors", "true"),
    ("delta.enableDeletionVectors", "false"),
    ("delta.enableChangeDataFeed", "true"),
    ("delta.enableChangeDataFeed", "false"),
    ("delta.enableRowTracking", "true"),
    ("delta.enableInCommitTimestamps", "true"),
    ("delta.columnMapping.mode", "name"),
    ("delta.checkpointPolicy", "v2"),
    ("delta.checkpointPolicy", "classic"),
    ("delta.checkpoint.writeStatsAsStruct", "true"),
    ("delta.checkpoint.writeStatsAsJson", "false"),
    ("delta.dataSkippingNumIndexedCols", "1"),
    ("delta.isolationLevel", "Serializable"),
    ("delta.isolationLevel", "WriteSerializable"),
)


class AlterationRules(TableHistory):
    """Rules that add, drop and rename columns, and set table properties."""

    @precondition(lambda self: len(self._model.columns()) < _MOST_COLUMNS)
    @rule(writer=WRITERS)
    def add_column(self, writer: int) -> None:
        """Add a column that is null in all rows."""
        columns = self._model.columns(self._seen[writer].version)
        name = self._column_name()

        def commit(snapshot: Snapshot) -> int:
            builder = snapshot.build_update_table_transaction(INFO, Operation.ADD_COLUMNS)
            builder = builder.with_schema(schema_of((*columns, name))).with_schema_evolution()
            result = builder.build(self._engine).commit(self._engine, [])
            result.run_post_commit_hooks(self._engine)
            return result.version

        self._attempt(writer, commit, lambda _: Effect(columns=(name,)), f"add column {name}")

    @rule(writer=WRITERS, data=st.data())
    def drop_column(self, writer: int, data: st.DataObject) -> None:
        """Drop a column that `add_column` added, if the table has column mapping."""
        self._change_column(
            writer,
            data,
            lambda s, name: (
                drop_columns(self._engine, s, [(name,)], engine_info=INFO).version,
                None,
            ),
            "drop",
        )

    @rule(writer=WRITERS, data=st.data())
    def rename_some_column(self, writer: int, data: st.DataObject) -> None:
        """Rename a column that `add_column` added, if the table has column mapping."""
        to = self._column_name()
        self._change_column(
            writer,
            data,
            lambda s, name: (
                rename_column(self._engine, s, (name,), to, engine_info=INFO).version,
                to,
            ),
            f"rename to {to}",
        )

    @rule(writer=WRITERS, change=st.sampled_from(_CHANGES))
    def set_property(self, writer: int, change: tuple[str, str]) -> None:
        """Set a property. This can take several commits: row tracking assigns ids to rows first."""
        name, value = change

        def commit(snapshot: Snapshot) -> int:
            version = set_properties(
                self._engine, snapshot, {name: value}, engine_info=INFO
            ).version
            self._model.commit_nothing(version - 1)
            return version

        try:
            self._attempt(writer, commit, lambda _: Effect(), f"set {name} to {value}")
        finally:
            self._model.commit_nothing(self._latest().version)
        self._seen[writer] = self._latest()

    def _change_column(
        self,
        writer: int,
        data: st.DataObject,
        change: Callable[[Snapshot, str], tuple[int, str | None]],
        what: str,
    ) -> None:
        snapshot = self._seen[writer]
        later = [c for c in self._model.columns(snapshot.version) if c not in COLUMNS]
        if not later or snapshot.column_mapping == "none":
            return
        name = data.draw(st.sampled_from(later), label="column")
        to: list[str | None] = []

        def commit(snapshot: Snapshot) -> int:
            version, new_name = change(snapshot, name)
            to.append(new_name)
            return version

        self._attempt(writer, commit, lambda _: Effect(renamed={name: to[0]}), f"{what}: {name}")

    def _column_name(self) -> str:
        self._next_column += 1
        return f"c{self._next_column}"
