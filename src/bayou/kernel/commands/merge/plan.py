"""Plan of a merge: resolved names, types, the resulting schema, and the values of each clause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from bayou.errors import PredicateError, SchemaError
from bayou.kernel.commands.merge.assignments import (
    Assigned,
    Assignment,
    ColumnValue,
    Fields,
    Generated,
    Null,
    assigned_value,
    evolved_schema,
    expressions_of,
    update_values,
)
from bayou.kernel.commands.merge.clauses import (
    BOTH,
    SOURCE,
    TARGET,
    ClauseAction,
    ClauseKind,
    JoinedColumns,
    MergeClause,
    Side,
    check_clauses,
    columns_of,
)
from bayou.kernel.commands.merge.condition import MergeCondition
from bayou.kernel.commands.row_changes.assignments import generated_from
from bayou.kernel.expressions.model import Column, Expression, Literal, Predicate
from bayou.kernel.expressions.resolution import type_of
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.transaction.schema_evolution import widened_columns
from bayou.protocol.column_metadata import (
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    identity_column,
)
from bayou.protocol.schema import (
    BOOLEAN,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)
from bayou.protocol.sql import unquoted_identifier
from bayou.protocol.type_widening import AutomaticWidening, WideningRule

_SIDES: dict[ClauseKind, tuple[Side, ...]] = {
    "MATCHED": BOTH,
    "NOT MATCHED": (SOURCE,),
    "NOT MATCHED BY SOURCE": (TARGET,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeDefinition:
    """Definition of a merge.

    Attributes:
        clauses: WHEN clauses. Clauses of one kind are evaluated in this order.
        schema_evolution: whether to add the source columns that clauses assign and the table lacks.
        automatic_widening: the type changes that schema evolution may make if the table has type
            widening.
        write_parameters: `operationParameters` of a write that replaces matching rows. If set, the
            history shows the operation WRITE instead of MERGE.
    """

    on: Predicate | str
    clauses: tuple[MergeClause, ...]
    source_alias: str = SOURCE
    target_alias: str = TARGET
    schema_evolution: bool = False
    automatic_widening: AutomaticWidening = AutomaticWidening.SAME_FAMILY_TYPE
    write_parameters: Mapping[str, object] | None = None

    def without_expressions(self) -> MergeDefinition:
        """Replace all conditions by TRUE and all values by NULL, except DEFAULT in INSERT clauses.

        The result is used if another engine evaluates the conditions and values.
        """
        condition, value = Literal(True, BOOLEAN), Literal(None, VOID)
        clauses = [
            replace(
                clause,
                condition=None if clause.condition is None else condition,
                assignments=None
                if clause.assignments is None
                else {
                    name: "DEFAULT" if clause.action == "insert" and _is_default(old) else value
                    for name, old in clause.assignments.items()
                },
            )
            for clause in self.clauses
        ]
        return replace(self, on=condition, clauses=tuple(clauses))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A resolved clause over joined rows.

    Attributes:
        condition: condition of the clause (`WHEN MATCHED AND ...`); None if it has none.
        values: one value for each column of the resulting schema; empty for a delete.
        paths: columns and nested fields that the clause sets, in the order of its assignments.
            Columns that an INSERT sets to DEFAULT are omitted.
    """

    kind: ClauseKind
    action: ClauseAction
    condition: Predicate | None
    values: tuple[ColumnValue, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """A resolved merge, independent of the source's rows.

    Attributes:
        names: columns of the target before the merge, and columns of the source.
        schema: the target's schema after the merge.
        joined: schema of the joined rows from which new rows are computed. Target columns have the
            same types as in `schema`.
        explicit_identity: names of identity columns whose values the inserted rows provide.
    """

    table: str
    names: JoinedColumns
    schema: StructType
    joined: StructType
    condition: MergeCondition
    clauses: tuple[PlannedClause, ...]
    explicit_identity: frozenset[str]

    @classmethod
    def build(
        cls,
        table: str,
        target: StructType,
        source: StructType,
        definition: MergeDefinition,
        *,
        widening: WideningRule | None = None,
    ) -> MergePlan:
        """Resolve the names, types and values of a merge, and return its plan.

        Args:
            widening: rule that decides which columns schema evolution widens to the types of their
                source columns. If None, no column is widened.
        """
        check_clauses(definition.clauses)
        names = JoinedColumns(
            target=target,
            source=source,
            target_alias=definition.target_alias,
            source_alias=definition.source_alias,
        )
        on = names.predicate(definition.on, "ON condition")
        planner = _Planner(table, names, schema_evolution=definition.schema_evolution)
        assigned = planner.all_assignments(definition.clauses)
        schema = planner.resulting_schema(assigned, widening)
        joined = names.schema
        if widened_columns(target, schema):
            # Updated rows are read with the widened column types.
            widened = replace(names, target=schema.select(target.names))
            assigned = planner.with_names(widened).all_assignments(definition.clauses)
            joined = widened.schema
        by_clause = {id(clause): assignments for clause, assignments in assigned}
        clauses = tuple(
            planner.planned(clause, by_clause.get(id(clause), ()), schema)
            for clause in definition.clauses
        )
        return cls(
            table=table,
            names=names,
            schema=schema,
            joined=joined,
            condition=MergeCondition.of(on, names.schema),
            clauses=clauses,
            explicit_identity=_explicit_identity(table, schema, clauses),
        )

    @cached_property
    def matched(self) -> tuple[PlannedClause, ...]:
        return self._clauses_of("MATCHED")

    @cached_property
    def not_matched(self) -> tuple[PlannedClause, ...]:
        return self._clauses_of("NOT MATCHED")

    @cached_property
    def not_matched_by_source(self) -> tuple[PlannedClause, ...]:
        return self._clauses_of("NOT MATCHED BY SOURCE")

    @property
    def target_clauses(self) -> tuple[PlannedClause, ...]:
        """Clauses that change target rows: `matched` first, then `not_matched_by_source`."""
        return (*self.matched, *self.not_matched_by_source)

    @property
    def only_inserts(self) -> bool:
        """Whether the merge changes no existing row."""
        return not self.matched and not self.not_matched_by_source

    @property
    def may_match_several(self) -> bool:
        """Whether several source rows may match one target row without an error.

        This is the case if the merge only inserts rows, or if its only clause for matched rows is
        a DELETE without a condition.
        """
        match self.matched:
            case (PlannedClause(action="delete", condition=None),):
                return True
            case _:
                return self.only_inserts

    @cached_property
    def condition_columns(self) -> tuple[str, ...]:
        """Target columns that the ON condition and the clauses' conditions need, in table order."""
        conditions = [c.condition for c in self.target_clauses if c.condition is not None]
        needed = columns_of([*self.condition.target_expressions, *conditions], TARGET)
        return tuple(name for name in self.names.target.names if name in needed)

    @cached_property
    def updates_need_target(self) -> bool:
        """Whether the new values of updated rows depend on the old rows."""
        updates = [c for c in self.target_clauses if c.values]
        used = [e for c in updates for e in expressions_of(self.schema, c.values)]
        return bool(columns_of(used, TARGET))

    def columns_set_by(self, clause: PlannedClause) -> tuple[str, ...]:
        """Return the top-level columns that a clause sets, in the order of `schema`."""
        return tuple(
            field.name
            for field, value in zip(self.schema, clause.values, strict=bool(clause.values))
            if isinstance(value, Assigned | Fields)
        )

    @cached_property
    def updated_columns(self) -> tuple[str, ...]:
        """Columns that at least one UPDATE clause sets, in the order of `schema`."""
        updated = {name for c in self.target_clauses for name in self.columns_set_by(c)}
        return tuple(name for name in self.schema.names if name in updated)

    @cached_property
    def always_updated(self) -> frozenset[str]:
        """Columns that every UPDATE clause sets, or that are generated from such columns."""
        updates = [c for c in self.target_clauses if c.action == "update"]
        if not updates:
            return frozenset()
        updated = frozenset.intersection(*(frozenset(self.columns_set_by(c)) for c in updates))
        return updated | generated_from(self.schema, set(updated))

    def _clauses_of(self, kind: ClauseKind) -> tuple[PlannedClause, ...]:
        return tuple(clause for clause in self.clauses if clause.kind == kind)


class _Planner:
    def __init__(self, table: str, names: JoinedColumns, *, schema_evolution: bool) -> None:
        self._table = table
        self._names = names
        self._schema_evolution = schema_evolution

    def with_names(self, names: JoinedColumns) -> _Planner:
        return _Planner(self._table, names, schema_evolution=self._schema_evolution)

    def all_assignments(
        self, clauses: Sequence[MergeClause]
    ) -> list[tuple[MergeClause, tuple[Assignment, ...]]]:
        return [(c, self.assignments(c)) for c in clauses if c.action != "delete"]

    def assignments(self, clause: MergeClause) -> tuple[Assignment, ...]:
        """Return the assignments of a clause.

        Paths are spelled as in the target's schema, with two exceptions under schema evolution:
        paths of new columns, and all paths of `UPDATE SET *` and `INSERT *`, are spelled as in the
        source's schema.
        """
        if clause.sets_all_columns:
            return tuple(self._all_columns(clause))
        what = f"value of the WHEN {clause.kind} clause"
        assignments: list[Assignment] = []
        values: Mapping[str, Expression | str] = clause.assignments or {}
        for name, value in values.items():
            path = self._assigned_path(name, clause)
            if _is_default(value):
                default = self._default(path, clause)
                if default is not None:
                    assignments.append(self._assignment(path, default))
                continue
            expression = self._names.expression(value, what, _SIDES[clause.kind])
            assignments.append(self._assignment(path, expression))
        return tuple(assignments)

    def resulting_schema(
        self,
        assigned: Sequence[tuple[MergeClause, tuple[Assignment, ...]]],
        widening: WideningRule | None,
    ) -> StructType:
        if not self._schema_evolution:
            return self._names.target
        with_source = [(c, a) for c, a in assigned if c.kind != "NOT MATCHED BY SOURCE"]
        return evolved_schema(
            self._table,
            self._names.target,
            self._names.source,
            [a.path for c, set_ in with_source if not c.sets_all_columns for a in set_],
            all_columns=any(c.sets_all_columns for c, _ in with_source),
            widening=widening,
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
            self._check_no_identity(assignments)
            values = update_values(
                self._table,
                self._names.target,
                schema,
                assignments,
                schema_evolution=self._schema_evolution,
            )
        elif clause.action == "insert":
            values = tuple(self._insert_values(assignments, schema))
        return PlannedClause(
            kind=clause.kind,
            action=clause.action,
            condition=condition,
            values=values,
            paths=tuple(assignment.path for assignment in assignments),
        )

    def _all_columns(self, clause: MergeClause) -> Iterator[Assignment]:
        if self._schema_evolution:
            columns = [field.name for field in self._names.source]
        else:
            columns = [field.name for field in self._names.target]
        for name in columns:
            source = self._names.source.get(name)
            if source is None:
                raise PredicateError(
                    f"{self._table}: cannot resolve {name} in {clause.action.upper()} clause: "
                    f"the clause sets all columns, and the source has no column {name!r}. The "
                    f"source's columns are {', '.join(self._names.source.names)} "
                    "(DELTA_MERGE_UNRESOLVED_EXPRESSION). Set columns by name, or enable schema "
                    "evolution.",
                    expression=name,
                )
            value = Column((f"{SOURCE}.{source.name}",))
            yield self._assignment(
                (name,), value, keeps_fields=self._schema_evolution and clause.action == "update"
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
        """Return the value that `DEFAULT` has for a column in an UPDATE clause.

        For an INSERT clause, None is returned. The clause then doesn't assign the column, and the
        writer generates the default.
        """
        if clause.action == "insert":
            return None
        field = self._names.target.get(path[0])
        default = None if field is None else field.metadata.get(CURRENT_DEFAULT_KEY)
        if default is None or len(path) > 1:
            return Literal(None, VOID)
        return self._names.expression(str(default), f"default of column {path[0]}", ())

    def _assigned_path(self, name: str, clause: MergeClause) -> tuple[str, ...]:
        quoted = unquoted_identifier(name)
        try:
            parsed = Column((quoted,)) if quoted is not None else parse_expression(name)
        except PredicateError:
            if self._names.target.get(name) is None:
                raise
            parsed = Column((name,))
        if not isinstance(parsed, Column) and self._names.target.get(name) is not None:
            parsed = Column((name,))
        if not isinstance(parsed, Column):
            raise PredicateError(
                f"{self._table}: {name!r} isn't a column. Put a name in backticks if it contains "
                "characters other than letters, digits and _.",
                expression=name,
            )
        path = parsed.path
        schemas = [self._names.target]
        if self._schema_evolution and clause.kind != "NOT MATCHED BY SOURCE":
            schemas.append(self._names.source)
        for schema in schemas:
            qualified = len(path) > 1 and path[0].lower() == self._names.target_alias.lower()
            resolved = _schema_path(schema, path[1:]) if qualified else None
            resolved = resolved or _schema_path(schema, path)
            if resolved is None and quoted is None:  # a name with a dot, without backticks
                resolved = _schema_path(schema, (name,))
            if resolved is not None:
                return resolved
        qualified = len(path) > 1 and path[0].lower() == self._names.target_alias.lower()
        self._check_nested(name, path[1:] if qualified else path, clause)
        raise PredicateError(
            f"{self._table}: cannot resolve {name} in {clause.action.upper()} clause: it isn't a "
            f"column of the table. The table's columns are {', '.join(self._names.target.names)} "
            "(DELTA_MERGE_UNRESOLVED_EXPRESSION).",
            expression=name,
        )

    def _check_nested(self, name: str, path: tuple[str, ...], clause: MergeClause) -> None:
        """Raise `SchemaError` if a path starts in an existing column but names no field of it."""
        level: DataType = self._names.target
        for number, part in enumerate(path):
            field = level.get(part) if isinstance(level, StructType) else None
            if field is not None:
                level = field.data_type
                continue
            if number == 0:
                return
            parent = ".".join(path[:number])
            match level:
                case StructType():
                    reason = (
                        f"No such struct field {part!r} in {', '.join(level.names)} "
                        "(FIELD_NOT_FOUND). Use one of these fields."
                    )
                case ArrayType() | MapType():
                    reason = (
                        "Updating nested fields is only supported for StructType, and "
                        f"{parent!r} has the type {level} "
                        "(DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT). Set the whole column."
                    )
                case _:
                    reason = (
                        f"{parent!r} has the type {level}, which has no fields "
                        "(INVALID_EXTRACT_BASE_FIELD_TYPE). Set the whole column."
                    )
            raise SchemaError(
                f"{self._table}: cannot resolve {name} in {clause.action.upper()} clause: {reason}",
                table=self._table,
                column=name,
            )

    def _check_no_identity(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            field = self._names.target.get(assignment.path[0])
            if field is not None and identity_column(field) is not None:
                raise SchemaError(
                    f"{self._table}: identity column {field.name!r} can't be updated "
                    "(DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED). Remove it from the UPDATE.",
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
                    f"{self._table}: nested field is not supported in the INSERT clause: "
                    f"{column!r} (DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION). Insert the whole "
                    "struct.",
                    table=self._table,
                    column=column,
                )
            if column.lower() in by_name:
                raise SchemaError(
                    f"{self._table}: the INSERT has column {column!r} twice; duplicate column "
                    "names in INSERT clause (DELTA_DUPLICATE_COLUMNS_ON_INSERT). Remove one.",
                    table=self._table,
                    column=column,
                )
            by_name[column.lower()] = assignment
        for field in schema:
            explicit = by_name.get(field.name.lower())
            if explicit is None:
                yield Generated() if _is_generated(field) else Null()
                continue
            identity = identity_column(field)
            if identity is not None and not identity.allow_explicit_insert:
                raise SchemaError(
                    f"{self._table}: column {field.name!r} is GENERATED ALWAYS AS IDENTITY, so "
                    "values can't be inserted "
                    "(DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED). Remove the column "
                    "from the INSERT.",
                    table=self._table,
                    column=field.name,
                )
            yield assigned_value(
                self._table,
                field.name,
                explicit,
                field.data_type,
                schema_evolution=self._schema_evolution,
            )


def _schema_path(schema: StructType, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return a path with names spelled as in the schema; None if the schema has no such path."""
    names: list[str] = []
    level: object = schema
    for name in path:
        field = level.get(name) if isinstance(level, StructType) else None
        if field is None:
            return None
        names.append(field.name)
        level = field.data_type
    return tuple(names)


def _is_default(value: Expression | str) -> bool:
    return isinstance(value, str) and value.strip().upper() == "DEFAULT"


def _is_generated(field: StructField) -> bool:
    return (
        GENERATION_EXPRESSION_KEY in field.metadata
        or CURRENT_DEFAULT_KEY in field.metadata
        or identity_column(field) is not None
    )


def _explicit_identity(
    table: str, schema: StructType, clauses: Sequence[PlannedClause]
) -> frozenset[str]:
    explicit: set[str] = set()
    inserts = [clause for clause in clauses if clause.action == "insert"]
    for index, field in enumerate(schema):
        if identity_column(field) is None:
            continue
        generated = {isinstance(clause.values[index], Generated) for clause in inserts}
        if generated == {True, False}:
            raise SchemaError(
                f"{table}: some INSERT clauses set identity column {field.name!r}, and others "
                "don't. Set it in all of them or in none.",
                table=table,
                column=field.name,
            )
        if generated == {False}:
            explicit.add(field.name)
    return frozenset(explicit)
