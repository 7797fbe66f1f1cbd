"""Rules of `TableMachine` that change rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from bayou.errors import CommitConflictError
from bayou.kernel import Operation, Snapshot, Transaction, delete_data_files, write_data
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.commands.row_changes.update import update
from bayou.protocol.actions import Action, AddFile
from support.table_history import INFO, WRITERS, OpenTransaction, TableHistory
from support.table_model import Condition, Effect, Rows
from support.table_rows import VALUES, batch_of, conditions

__all__ = ["RowConstraints"]


class RowConstraints(TableHistory):
    """Rules that append, overwrite, delete, update and merge rows."""

    @rule(writer=WRITERS)
    def look(self, writer: int) -> None:
        """Let a writer read the latest version."""
        self._seen[writer] = self._latest()

    @rule(writer=WRITERS, rows=st.lists(VALUES, min_size=1, max_size=4))
    def append(self, writer: int, rows: list[dict[str, Any]]) -> None:
        """Append rows without reading; only a concurrent change of metadata conflicts."""
        new = self._numbered(self._model.columns(self._seen[writer].version), rows)
        self._attempt(
            writer, lambda s: self._write(s, new), lambda _: Effect(new=new), f"append {list(new)}"
        )

    @rule(
        writer=WRITERS,
        rows=st.lists(VALUES, min_size=1, max_size=2),
        application=st.sampled_from(["a", "b"]),
        step=st.integers(-1, 2),
    )
    def append_once(
        self, writer: int, rows: list[dict[str, Any]], application: str, step: int
    ) -> None:
        """Append rows with a transaction identifier.

        Nothing is written if the writer's version already has the same or a higher number.
        """
        snapshot = self._seen[writer]
        number = max(0, self._applications.get(application, 0) + step)
        known = snapshot.transaction_version(application)
        recorded = known is not None and known >= number
        new = self._numbered(self._model.columns(snapshot.version), rows)
        committed = self._attempt(
            writer,
            lambda s: self._write(s, new, numbered=(application, number)),
            lambda _: Effect() if recorded else Effect(new=new),
            f"append {list(new)} as {application} {number}",
        )
        assert not (committed and recorded)
        if committed:
            self._applications[application] = number

    @rule(writer=WRITERS, rows=st.lists(VALUES, max_size=3))
    def overwrite(self, writer: int, rows: list[dict[str, Any]]) -> None:
        """Replace all rows."""
        new = self._numbered(self._model.columns(self._seen[writer].version), rows)
        self._attempt(
            writer,
            lambda s: self._write(s, new, removing=_ALL),
            lambda before: Effect(gone=before, new=new),
            f"overwrite by {list(new)}",
        )

    @precondition(lambda self: self._partitioned)
    @rule(writer=WRITERS, rows=st.lists(VALUES, min_size=1, max_size=3))
    def overwrite_partitions(self, writer: int, rows: list[dict[str, Any]]) -> None:
        """Replace the rows of the partitions of the new rows (dynamic overwrite)."""
        new = self._numbered(self._model.columns(self._seen[writer].version), rows)
        touched = _partitions_of(new)
        self._attempt(
            writer,
            lambda s: self._write(s, new, removing=touched),
            lambda before: Effect(gone=touched.of(before), new=new),
            f"overwrite {touched} by {list(new)}",
        )

    @rule(
        writer=WRITERS,
        rows=st.lists(VALUES, min_size=1, max_size=3),
        kind=st.sampled_from(["append", "overwrite", "overwrite partitions"]),
    )
    def begin(self, writer: int, rows: list[dict[str, Any]], kind: str) -> None:
        """Start a transaction and write its files; `finish` commits it later."""
        snapshot = self._seen[writer]
        new = self._numbered(self._model.columns(snapshot.version), rows)
        removing = None
        if kind != "append":
            by_partition = self._partitioned and kind == "overwrite partitions"
            removing = _partitions_of(new) if by_partition else _ALL
        transaction = self._transaction(snapshot)
        actions = self._actions(transaction, new, removing)
        self._discard(writer)
        self._open[writer] = OpenTransaction(
            snapshot=snapshot,
            transaction=transaction,
            actions=actions,
            effect=lambda before: Effect(gone=removing.of(before) if removing else {}, new=new),
            what=f"{kind} of {removing} by {list(new)}, begun before",
        )

    @precondition(lambda self: any(self._open))
    @rule(writer=WRITERS)
    def finish(self, writer: int) -> None:
        """Commit the open transaction of this writer, or else of the other writer."""
        writer = writer if self._open[writer] else 1 - writer
        begun = self._open[writer]
        assert begun is not None
        self._open[writer] = None
        self._attempt(
            writer,
            lambda _: self._commit(begun.transaction, begun.actions),
            begun.effect,
            begun.what,
            begun.snapshot,
        )

    @rule(writer=WRITERS, condition=conditions())
    def delete_rows(self, writer: int, condition: Condition) -> None:
        """Execute a DELETE."""
        self._attempt(
            writer,
            lambda s: delete(self._engine, s, condition.text, engine_info=INFO).version,
            lambda before: Effect(gone=condition.of(before)),
            f"delete where {condition.text}",
        )

    @rule(writer=WRITERS, condition=conditions(), p=st.integers(0, 3), moves=st.booleans())
    def update_rows(self, writer: int, condition: Condition, p: int, moves: bool) -> None:
        """Execute an UPDATE, which may move rows to another partition."""
        values = {"v": "coalesce(v, 0) + 1"} | ({"p": str(p)} if moves else {})

        def effect(before: Rows) -> Effect:
            gone = condition.of(before)
            to = {"p": p} if moves else {}
            new = {k: {**r, "v": (r["v"] or 0) + 1, **to} for k, r in gone.items()}
            return Effect(gone=gone, new=new)

        self._attempt(
            writer,
            lambda s: update(self._engine, s, values, condition.text, engine_info=INFO).version,
            effect,
            f"update {values} where {condition.text}",
        )

    @rule(
        writer=WRITERS,
        matching=st.sets(st.integers(0, 30), max_size=4),
        rows=st.lists(VALUES, max_size=2),
        deletes=st.booleans(),
        others=st.sampled_from(["stay", "go"]),
    )
    def merge_rows(
        self,
        writer: int,
        matching: set[int],
        rows: list[dict[str, Any]],
        deletes: bool,
        others: str,
    ) -> None:
        """Execute a MERGE.

        Args:
            writer: the writer.
            matching: ids of matching source rows, if the table has them.
            rows: values of source rows that don't match.
            deletes: whether to delete matching rows instead of updating them.
            others: `go` to delete target rows of one partition that have no source row.
        """
        columns = self._model.columns(self._seen[writer].version)
        seen = self._model.rows(self._seen[writer].version)
        new = self._numbered(columns, rows)
        source: Rows = {
            **{k: {**seen[k], "v": -k} for k in sorted(matching) if k in seen},
            **new,
        }
        clauses = [
            MergeClause(kind="MATCHED", action="delete" if deletes else "update"),
            MergeClause(kind="NOT MATCHED", action="insert"),
        ]
        if others == "go":
            clauses.append(
                MergeClause(kind="NOT MATCHED BY SOURCE", action="delete", condition="p = 1")
            )
        definition = MergeDefinition(on="target.id = source.id", clauses=tuple(clauses))
        batches = batch_of(source, columns)
        rows_read = MergeSource.read(batches[0].schema, batches)

        def effect(before: Rows) -> Effect:
            gone = {k: before[k] for k in source if k in before}
            if others == "go":
                gone |= {k: r for k, r in before.items() if k not in source and r["p"] == 1}
            kept = {} if deletes else {k: r for k, r in source.items() if k in before}
            return Effect(gone=gone, new={**kept, **new})

        self._attempt(
            writer,
            lambda s: merge(self._engine, s, rows_read, definition, engine_info=INFO).version,
            effect,
            f"merge {list(source)}, deletes: {deletes}, others {others}",
        )

    def _transaction(
        self, snapshot: Snapshot, numbered: tuple[str, int] | None = None
    ) -> Transaction:
        builder = snapshot.build_update_table_transaction(INFO, Operation.WRITE)
        if numbered is not None:
            builder = builder.with_transaction_id(*numbered)
        return builder.build(self._engine)

    def _actions(
        self, transaction: Transaction, rows: Rows, removing: Condition | None
    ) -> list[Action]:
        state = transaction.transaction_state(self._engine)
        actions: list[Action] = list(write_data(self._engine, state, batch_of(rows)))
        if removing is not None:
            actions += transaction.generate_remove_actions(self._engine, removing.text)
        return actions

    def _write(
        self,
        snapshot: Snapshot,
        rows: Rows,
        *,
        removing: Condition | None = None,
        numbered: tuple[str, int] | None = None,
    ) -> int:
        transaction = self._transaction(snapshot, numbered)
        return self._commit(transaction, self._actions(transaction, rows, removing))

    def _commit(self, transaction: Transaction, actions: Sequence[Action]) -> int:
        try:
            result = transaction.commit(self._engine, actions)
        except CommitConflictError:
            self._delete_new(actions)
            raise
        if result.already_committed:
            self._delete_new(actions)
        result.run_post_commit_hooks(self._engine)
        return result.version

    def _discard(self, writer: int) -> None:
        """Delete the files of a writer's open transaction, and forget the transaction."""
        begun = self._open[writer]
        self._open[writer] = None
        if begun is not None:
            self._delete_new(begun.actions)

    def _delete_new(self, actions: Sequence[Action]) -> None:
        delete_data_files(self._engine, self._path, [a for a in actions if isinstance(a, AddFile)])


_ALL = Condition(None, lambda _: True)


def _partitions_of(rows: Rows) -> Condition:
    values = {row["p"] for row in rows.values()}
    texts = ["p IS NULL" if value is None else f"p = {value}" for value in values]
    return Condition(" OR ".join(texts), lambda row: row["p"] in values)
