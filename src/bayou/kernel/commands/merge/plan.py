"""A merge understood: names, types, the schema that comes out, and what each clause does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from bayou.errors import PredicateError, SchemaError
from bayou.kernel.commands.merge.assignments import (
    Assignment,
    ColumnValue,
    Made,
    Nothing,
    expressions_of,
    given,
    grown_schema,
    update_values,
)
from bayou.kernel.commands.merge.clauses import (
    BOTH,
    SOURCE,
    TARGET,
    ClauseAction,
    ClauseKind,
    JoinedNames,
    MergeClause,
    Side,
    check_clauses,
    columns_of,
)
from bayou.kernel.commands.merge.condition import MergeCondition
from bayou.kernel.expressions.model import Column, Expression, Literal, Predicate
from bayou.kernel.expressions.resolution import type_of
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.transaction.schema_evolution import widened_columns
from bayou.protocol.column_rules import (
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    identity_of,
)
from bayou.protocol.schema import VOID, StructField, StructType

__all__ = ["MergeDefinition", "MergePlan", "PlannedClause"]

_SIDES: dict[ClauseKind, tuple[Side, ...]] = {
    "MATCHED": BOTH,
    "NOT MATCHED": (SOURCE,),
    "NOT MATCHED BY SOURCE": (TARGET,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeDefinition:
    """A merge as its author says it.

    Attributes:
        on: when a row of the source and one of the target belong together.
        clauses: those of one kind in the order in which they are looked at.
        source_alias, target_alias: the sides' names in conditions and values.
        schema_evolution: columns of the source that the table lacks are added to it, where a
            clause takes them.
    """

    on: Predicate | str
    clauses: tuple[MergeClause, ...]
    source_alias: str = SOURCE
    target_alias: str = TARGET
    schema_evolution: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A clause over joined rows.

    Attributes:
        condition: resolved, None for all rows.
        values: by column of the table as it will be; nothing for a delete.
    """

    action: ClauseAction
    condition: Predicate | None
    values: tuple[ColumnValue, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """What a merge does, for any rows of the source's schema.

    Attributes:
        table: the target's path.
        names: the columns of both sides.
        schema: the target's, as it will be.
        joined: columns of joined rows that new versions are made of: the target's have the types
            of `schema`, those of `names` the types that they have now.
        matched, not_matched, not_matched_by_source: clauses, the first that holds counts.
        explicit_identity: identity columns that inserted rows bring values of.
    """

    table: str
    names: JoinedNames
    schema: StructType
    joined: StructType
    condition: MergeCondition
    matched: tuple[PlannedClause, ...]
    not_matched: tuple[PlannedClause, ...]
    not_matched_by_source: tuple[PlannedClause, ...]
    explicit_identity: frozenset[str]

    @classmethod
    def build(
        cls,
        table: str,
        target: StructType,
        source: StructType,
        definition: MergeDefinition,
        *,
        widens: bool = False,
    ) -> MergePlan:
        """Understand a merge.

        Args:
            widens: where the schema evolves, columns take wider types of the source.

        Raises:
            ArgumentError: clauses that can't stand together, or aliases.
            PredicateError: a text that can't be understood, or a name that isn't a column or may
                be several.
            SchemaError: a column that is set twice, or can't be set, or can't take the value.
        """
        check_clauses(definition.clauses)
        names = JoinedNames(
            target=target,
            source=source,
            target_alias=definition.target_alias,
            source_alias=definition.source_alias,
        )
        on = names.predicate(definition.on, "ON condition")
        planner = _Planner(table, names, growing=definition.schema_evolution)
        assigned = planner.all_assignments(definition.clauses)
        schema = planner.schema_behind(assigned, widens=widens)
        joined = names.schema
        if widened_columns(target, schema):
            # Rows that get new versions are read in the types that their columns will have.
            later = replace(names, target=schema.select(target.names))
            assigned = planner.reading(later).all_assignments(definition.clauses)
            joined = later.schema
        by_clause = {id(clause): found for clause, found in assigned}
        planned: dict[ClauseKind, list[PlannedClause]] = {kind: [] for kind in _SIDES}
        for clause in definition.clauses:
            found = planner.planned(clause, by_clause.get(id(clause), ()), schema)
            planned[clause.kind].append(found)
        return cls(
            table=table,
            names=names,
            schema=schema,
            joined=joined,
            condition=MergeCondition.of(on, names.schema),
            matched=tuple(planned["MATCHED"]),
            not_matched=tuple(planned["NOT MATCHED"]),
            not_matched_by_source=tuple(planned["NOT MATCHED BY SOURCE"]),
            explicit_identity=_explicit_identity(table, schema, planned["NOT MATCHED"]),
        )

    @property
    def only_inserts(self) -> bool:
        """No row of the target changes, whatever matches."""
        return not self.matched and not self.not_matched_by_source

    @property
    def may_match_several(self) -> bool:
        """Several source rows may match one target row: all it does is to go away."""
        match self.matched:
            case (PlannedClause(action="delete", condition=None),):
                return True
            case _:
                return self.only_inserts

    @cached_property
    def deciding_columns(self) -> tuple[str, ...]:
        """Columns of the target that say what happens to a row, in the table's order."""
        clauses = (*self.matched, *self.not_matched_by_source)
        conditions = [c.condition for c in clauses if c.condition is not None]
        named = columns_of([*self.condition.target_expressions, *conditions], TARGET)
        return tuple(name for name in self.names.target.names if name in named)

    @cached_property
    def updates_need_target(self) -> bool:
        """New versions of updated rows have something of the old ones."""
        updates = [c for c in (*self.matched, *self.not_matched_by_source) if c.values]
        used = [e for c in updates for e in expressions_of(self.schema, c.values)]
        return bool(columns_of(used, TARGET))


class _Planner:
    def __init__(self, table: str, names: JoinedNames, *, growing: bool) -> None:
        self._table = table
        self._names = names
        self._growing = growing

    def reading(self, names: JoinedNames) -> _Planner:
        """The same for joined rows of other types."""
        return _Planner(self._table, names, growing=self._growing)

    def all_assignments(
        self, clauses: Sequence[MergeClause]
    ) -> list[tuple[MergeClause, tuple[Assignment, ...]]]:
        """What the clauses set that set anything."""
        return [(c, self.assignments(c)) for c in clauses if c.action != "delete"]

    def assignments(self, clause: MergeClause) -> tuple[Assignment, ...]:
        """What a clause sets, by paths that are spelled as in the target, or in the source."""
        if clause.takes_all_columns:
            return tuple(self._all_columns(clause))
        what = f"value of the WHEN {clause.kind} clause"
        found: list[Assignment] = []
        given_values: Mapping[str, Expression | str] = clause.assignments or {}
        for name, value in given_values.items():
            path = self._assigned_path(name, clause)
            if isinstance(value, str) and value.strip().upper() == "DEFAULT":
                default = self._default(path, clause)
                if default is not None:
                    found.append(self._assignment(path, default))
                continue
            expression = self._names.expression(value, what, _SIDES[clause.kind])
            found.append(self._assignment(path, expression))
        return tuple(found)

    def schema_behind(
        self, assigned: Sequence[tuple[MergeClause, tuple[Assignment, ...]]], *, widens: bool
    ) -> StructType:
        """The target's schema as it will be."""
        if not self._growing:
            return self._names.target
        with_source = [(c, a) for c, a in assigned if c.kind != "NOT MATCHED BY SOURCE"]
        return grown_schema(
            self._table,
            self._names.target,
            self._names.source,
            [a.path for c, found in with_source if not c.takes_all_columns for a in found],
            all_columns=any(c.takes_all_columns for c, _ in with_source),
            widens=widens,
        )

    def planned(
        self, clause: MergeClause, assignments: Sequence[Assignment], schema: StructType
    ) -> PlannedClause:
        condition = None
        if clause.condition is not None:
            condition = self._names.predicate(
                clause.condition,
                f"condition of the WHEN {clause.kind} clause",
                _SIDES[clause.kind],
            )
        values: tuple[ColumnValue, ...] = ()
        if clause.action == "update":
            self._refuse_identity(assignments)
            values = update_values(
                self._table, self._names.target, schema, assignments, growing=self._growing
            )
        elif clause.action == "insert":
            values = tuple(self._insert_values(assignments, schema))
        return PlannedClause(action=clause.action, condition=condition, values=values)

    def _all_columns(self, clause: MergeClause) -> Iterator[Assignment]:
        if self._growing:
            columns = [field.name for field in self._names.source]
        else:
            columns = [field.name for field in self._names.target]
        for name in columns:
            source = self._names.source.get(name)
            if source is None:
                raise PredicateError(
                    f"WHEN {clause.kind} takes all columns of {self._table}, and the source has no "
                    f"column {name!r}; it has {', '.join(self._names.source.names)} "
                    "(DELTA_MERGE_UNRESOLVED_EXPRESSION). Set columns by name, or allow the schema "
                    "to evolve.",
                    expression=name,
                )
            value = Column((f"{SOURCE}.{source.name}",))
            yield self._assignment(
                (name,), value, keeps_fields=self._growing and clause.action == "update"
            )

    def _assignment(
        self, path: tuple[str, ...], value: Expression, *, keeps_fields: bool = False
    ) -> Assignment:
        return Assignment(
            path=path,
            value=value,
            data_type=type_of(value, self._names.schema),
            keeps_fields=keeps_fields,
        )

    def _default(self, path: tuple[str, ...], clause: MergeClause) -> Expression | None:
        """What DEFAULT stands for; None where the table makes it of a row without the column."""
        if clause.action == "insert":
            return None
        field = self._names.target.get(path[0])
        text = None if field is None else field.metadata.get(CURRENT_DEFAULT_KEY)
        if text is None or len(path) > 1:
            return Literal(None, VOID)
        return self._names.expression(str(text), f"default of column {path[0]}", ())

    def _assigned_path(self, name: str, clause: MergeClause) -> tuple[str, ...]:
        whole = self._names.target.get(name)
        if whole is not None:  # a name with a dot, say
            return (whole.name,)
        parsed = parse_expression(name)
        if not isinstance(parsed, Column):
            raise PredicateError(
                f"{name!r} can't be set: it isn't a column of {self._table}. Names with other "
                "characters than letters, digits and _ stand in backticks.",
                expression=name,
            )
        path = parsed.path
        places = [self._names.target]
        if self._growing and clause.kind != "NOT MATCHED BY SOURCE":
            places.append(self._names.source)
        for place in places:
            qualified = len(path) > 1 and path[0].lower() == self._names.target_alias.lower()
            found = _spelled(place, path[1:]) if qualified else None
            found = found or _spelled(place, path)
            if found is not None:
                return found
        raise PredicateError(
            f"{name!r} in the WHEN {clause.kind} clause isn't a column of {self._table}; it has "
            f"{', '.join(self._names.target.names)} (DELTA_MERGE_UNRESOLVED_EXPRESSION).",
            expression=name,
        )

    def _refuse_identity(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            field = self._names.target.get(assignment.path[0])
            if field is not None and identity_of(field) is not None:
                raise SchemaError(
                    f"Identity column {field.name!r} of {self._table} can't be updated "
                    "(DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED).",
                    table=self._table,
                    column=field.name,
                )

    def _insert_values(
        self, assignments: Sequence[Assignment], schema: StructType
    ) -> Iterator[ColumnValue]:
        by_name: dict[str, Assignment] = {}
        for assignment in assignments:
            column = ".".join(assignment.path)
            if len(assignment.path) > 1:
                raise SchemaError(
                    f"A new row of {self._table} has no field {column!r} by itself: insert the "
                    "whole struct (DELTA_NESTED_FIELD_NOT_SUPPORTED).",
                    table=self._table,
                    column=column,
                )
            if column.lower() in by_name:
                raise SchemaError(
                    f"Column {column!r} of {self._table} is inserted twice "
                    "(DELTA_DUPLICATE_COLUMN_ON_INSERT).",
                    table=self._table,
                    column=column,
                )
            by_name[column.lower()] = assignment
        for field in schema:
            found = by_name.get(field.name.lower())
            if found is None:
                yield Made() if _is_made(field) else Nothing()
                continue
            identity = identity_of(field)
            if identity is not None and not identity.allow_explicit:
                raise SchemaError(
                    f"Column {field.name!r} of {self._table} is GENERATED ALWAYS AS IDENTITY: its "
                    "values are made, none can be inserted "
                    "(DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED).",
                    table=self._table,
                    column=field.name,
                )
            yield given(self._table, field.name, found, field.data_type, growing=self._growing)


def _spelled(schema: StructType, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """A path with the schema's spelling, None where it isn't there."""
    spelled: list[str] = []
    level: object = schema
    for name in path:
        field = level.get(name) if isinstance(level, StructType) else None
        if field is None:
            return None
        spelled.append(field.name)
        level = field.data_type
    return tuple(spelled)


def _is_made(field: StructField) -> bool:
    return (
        GENERATION_EXPRESSION_KEY in field.metadata
        or CURRENT_DEFAULT_KEY in field.metadata
        or identity_of(field) is not None
    )


def _explicit_identity(
    table: str, schema: StructType, inserts: Sequence[PlannedClause]
) -> frozenset[str]:
    found: set[str] = set()
    for index, field in enumerate(schema):
        if identity_of(field) is None:
            continue
        made = {isinstance(clause.values[index], Made) for clause in inserts}
        if made == {True, False}:
            raise SchemaError(
                f"Some clauses insert values into identity column {field.name!r} of {table}, and "
                "others leave them to be made. Do either in all of them.",
                table=table,
                column=field.name,
            )
        if made == {False}:
            found.add(field.name)
    return frozenset(found)
