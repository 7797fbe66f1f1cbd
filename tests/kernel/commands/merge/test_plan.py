"""What a merge's definition comes to."""

from __future__ import annotations

from typing import Any

import pytest

from bayou.errors import ArgumentError, BayouError, PredicateError, SchemaError
from bayou.kernel.commands.merge.assignments import Assigned, Fields, Generated, Null, Unchanged
from bayou.kernel.commands.merge.clauses import MergeClause
from bayou.kernel.commands.merge.plan import MergeDefinition, MergePlan
from bayou.protocol.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    VOID,
    ArrayType,
    StructField,
    StructType,
)


def schema(**types: Any) -> StructType:
    return StructType(tuple(StructField(name=n, data_type=t) for n, t in types.items()))


S = schema(x=LONG, y=STRING)
TARGET = schema(id=LONG, n=INTEGER, s=S)
SOURCE = schema(id=LONG, n=LONG, s=S)


def update(values: dict[str, str] | None = None, condition: str | None = None) -> MergeClause:
    return MergeClause(kind="MATCHED", action="update", assignments=values, condition=condition)


def insert(values: dict[str, str] | None = None, condition: str | None = None) -> MergeClause:
    return MergeClause(kind="NOT MATCHED", action="insert", assignments=values, condition=condition)


def delete(condition: str | None = None) -> MergeClause:
    return MergeClause(kind="MATCHED", action="delete", condition=condition)


def plan(
    *clauses: MergeClause,
    target: StructType = TARGET,
    source: StructType = SOURCE,
    evolving: bool = False,
) -> MergePlan:
    definition = MergeDefinition(
        on="target.id = source.id", clauses=clauses, schema_evolution=evolving
    )
    return MergePlan.build("t", target, source, definition)


def kinds(values: Any) -> list[type]:
    return [type(value) for value in values]


def test_columns_that_are_not_set_stay() -> None:
    (clause,) = plan(update({"N": "source.n", "s.y": "'a'"})).matched
    assert kinds(clause.values) == [Unchanged, Assigned, Fields]
    fields = clause.values[2]
    assert isinstance(fields, Fields)
    assert kinds(fields.children) == [Unchanged, Assigned]


def test_all_columns_are_those_of_the_target() -> None:
    found = plan(update(), insert(), source=schema(S=S, ID=LONG, n=LONG, more=LONG))
    assert kinds(found.matched[0].values) == [Assigned] * 3
    assert found.schema == TARGET
    assert not found.updates_need_target


def test_all_columns_of_a_source_that_lacks_one_are_refused() -> None:
    with pytest.raises(PredicateError, match="no column 's'.*DELTA_MERGE_UNRESOLVED_EXPRESSION"):
        plan(update(), source=schema(id=LONG, n=LONG))


def test_condition_columns_are_those_of_conditions_only() -> None:
    found = plan(delete("target.n > source.n"), update({"s": "source.s"}))
    assert found.condition_columns == ("id", "n")
    assert found.updates_need_target


def test_the_target_may_be_named_in_what_is_set() -> None:
    assert kinds(plan(update({"target.s.x": "1"})).matched[0].values) == [
        Unchanged,
        Unchanged,
        Fields,
    ]


def test_inserted_columns_that_are_not_named_are_null_or_made() -> None:
    target = StructType(
        (
            *TARGET,
            StructField(
                name="g", data_type=LONG, metadata={"delta.generationExpression": "id + 1"}
            ),
            StructField(name="d", data_type=LONG, metadata={"CURRENT_DEFAULT": "7"}),
        )
    )
    (clause,) = plan(insert({"id": "source.id"}), target=target).not_matched
    assert kinds(clause.values) == [Assigned, Null, Null, Generated, Generated]
    (clause,) = plan(insert({"id": "source.id", "d": "DEFAULT"}), target=target).not_matched
    assert kinds(clause.values)[-1] is Generated
    (clause,) = plan(update({"id": "source.id", "d": "default"}), target=target).matched
    assert kinds(clause.values) == [Assigned, Unchanged, Unchanged, Generated, Assigned]


def identity(**metadata: Any) -> StructType:
    field = StructField(
        name="i",
        data_type=LONG,
        metadata={"delta.identity.start": 1, "delta.identity.step": 1, **metadata},
    )
    return StructType((*TARGET, field))


def test_identity_columns_are_made_unless_their_values_may_be_given() -> None:
    (clause,) = plan(insert({"id": "source.id"}), target=identity()).not_matched
    assert kinds(clause.values)[-1] is Generated
    by_default = identity(**{"delta.identity.allowExplicitInsert": True})
    found = plan(insert({"id": "source.id", "i": "source.n"}), target=by_default)
    assert found.explicit_identity == {"i"}
    with pytest.raises(SchemaError, match="EXPLICIT_INSERT_NOT_SUPPORTED"):
        plan(insert({"id": "source.id", "i": "source.n"}), target=identity())
    with pytest.raises(SchemaError, match="IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"):
        plan(update({"i": "3"}), target=by_default)
    with pytest.raises(SchemaError, match="in all of them or in none"):
        plan(
            insert({"id": "source.id", "i": "source.n"}, "source.n > 3"),
            insert({"id": "source.id"}),
            target=by_default,
        )


def test_new_columns_come_with_schema_evolution() -> None:
    source = schema(id=LONG, s=schema(z=LONG, y=STRING), more=DATE, other=LONG)
    found = plan(update(), evolving=True, source=source)
    assert found.schema == schema(
        id=LONG, n=INTEGER, s=schema(x=LONG, y=STRING, z=LONG), more=DATE, other=LONG
    )
    assert kinds(found.matched[0].values) == [Assigned, Unchanged, Assigned, Assigned, Assigned]
    found = plan(update({"more": "source.more"}), evolving=True, source=source)
    assert found.schema.names == ("id", "n", "s", "more")


def test_columns_without_a_type_come_in_as_void() -> None:
    found = plan(insert(), evolving=True, source=schema(id=LONG, more=VOID))
    assert found.schema.get("more") == StructField(name="more", data_type=VOID)


def test_new_columns_do_not_get_the_defaults_of_the_source() -> None:
    metadata = {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "7", "comment": "c"}
    more = StructField(name="more", data_type=LONG, metadata=metadata)
    source = StructType((*SOURCE, more))
    for clause in (update(), insert({"id": "source.id", "more": "source.more"})):
        found = plan(clause, evolving=True, source=source)
        assert found.schema.get("more") == StructField(
            name="more", data_type=LONG, metadata={"comment": "c"}
        )


@pytest.mark.parametrize(
    ("clauses", "error", "text"),
    [
        ((), ArgumentError, "DELTA_MERGE_MISSING_WHEN"),
        ((delete(), update()), ArgumentError, "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION"),
        (
            (insert(), insert()),
            ArgumentError,
            "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
        ),
        (
            (MergeClause(kind="NOT MATCHED BY SOURCE", action="delete"),) * 2,
            ArgumentError,
            "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
        ),
        ((MergeClause(kind="NOT MATCHED", action="delete"),), ArgumentError, "isn't a clause"),
        (
            (MergeClause(kind="NOT MATCHED BY SOURCE", action="update"),),
            ArgumentError,
            "no matching source row",
        ),
        ((update({}),), ArgumentError, "sets no column"),
        ((update({"nn": "1"}),), PredicateError, "cannot resolve nn in UPDATE clause"),
        ((update({"n + 1": "1"}),), PredicateError, "isn't a column. Put"),
        ((update({"n": "1", "N": "2"}),), SchemaError, "DELTA_CONFLICT_SET_COLUMN"),
        ((update({"s": "source.s", "s.x": "2"}),), SchemaError, "s.*more than once"),
        ((update({"n.x": "1"}),), SchemaError, "n' has the type.*INVALID_EXTRACT_BASE_FIELD_TYPE"),
        ((update({"s.z": "1"}),), SchemaError, "No such struct field .z. in .*FIELD_NOT_FOUND"),
        ((insert({"s.x": "1"}),), SchemaError, "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION"),
        ((insert({"n": "1", "N": "1"}),), SchemaError, "DELTA_DUPLICATE_COLUMNS_ON_INSERT"),
        ((insert({"n": "target.n"}),), PredicateError, "isn't a column of the source"),
        ((update({"s": "source.n"}),), SchemaError, "DATATYPE_MISMATCH"),
        (
            (MergeClause(kind="NOT MATCHED BY SOURCE", action="delete", condition="source.n = 1"),),
            PredicateError,
            "isn't a column of the target",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    clauses: tuple[MergeClause, ...], error: type[BayouError], text: str
) -> None:
    with pytest.raises(error, match=text):
        plan(*clauses)


def external_plan(*clauses: MergeClause, target: StructType = TARGET) -> MergePlan:
    definition = MergeDefinition(
        on="f(source.id)", clauses=clauses, source_alias="s", schema_evolution=True
    )
    return MergePlan.build("t", target, SOURCE, definition.without_expressions())


def test_a_plan_without_expressions_has_the_columns_and_the_schema() -> None:
    new = {"N": "unknown()", "target.s.x": "(SELECT 1)"}
    found = external_plan(update(new, "unknown(1)"), delete("unknown(2)"), update(), insert())
    assert [found.columns_set_by(c) for c in found.clauses] == [
        ("n", "s"),
        (),
        ("id", "n", "s"),
        ("id", "n", "s"),
    ]
    assert found.updated_columns == ("id", "n", "s")
    assert not found.may_match_several
    assert external_plan(delete()).may_match_several
    assert not external_plan(delete("unknown()")).may_match_several
    assert external_plan(insert({"id": "unknown()"})).only_inserts


def test_a_plan_without_expressions_makes_the_same_columns() -> None:
    by_default = identity(**{"delta.identity.allowExplicitInsert": True})
    (clause,) = external_plan(insert({"id": "f()", "i": "default"}), target=by_default).clauses
    assert kinds(clause.values)[-1] is Generated
    assert external_plan(insert({"i": "f()"}), target=by_default).explicit_identity == {"i"}
    with pytest.raises(SchemaError, match="IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"):
        external_plan(update({"i": "DEFAULT"}), target=by_default)


@pytest.mark.parametrize(
    ("clause", "error", "text"),
    [
        (update({}), ArgumentError, "sets no column"),
        (update({"nn": "f()"}), PredicateError, "cannot resolve nn in UPDATE clause"),
        (update({"s": "f()", "s.x": "f()"}), SchemaError, "DELTA_CONFLICT_SET_COLUMN"),
        (insert({"s.x": "f()"}), SchemaError, "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION"),
        (insert({"n": "f()", "N": "f()"}), SchemaError, "DELTA_DUPLICATE_COLUMNS_ON_INSERT"),
    ],
)
def test_a_plan_without_expressions_refuses_the_same_columns(
    clause: MergeClause, error: type[BayouError], text: str
) -> None:
    with pytest.raises(error, match=text):
        external_plan(clause)


def test_structs_must_have_the_same_fields_unless_the_schema_evolves() -> None:
    narrow = schema(id=LONG, n=LONG, s=schema(y=STRING))
    with pytest.raises(SchemaError, match="lacks 'x'.*DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"):
        plan(update(), source=narrow)
    plan(update(), source=narrow, evolving=True)
    wide = schema(id=LONG, n=LONG, s=schema(y=STRING, z=LONG, x=LONG))
    with pytest.raises(SchemaError, match="has 'z'"):
        plan(update(), source=wide)


def test_elements_of_arrays_are_put_in_by_name_too() -> None:
    target = schema(id=LONG, a=ArrayType(element_type=S))
    fields = schema(y=STRING, X=INTEGER)
    plan(insert(), target=target, source=schema(id=LONG, a=ArrayType(element_type=fields)))
    fields = schema(y=STRING)
    with pytest.raises(SchemaError, match=r"a\.element"):
        plan(insert(), target=target, source=schema(id=LONG, a=ArrayType(element_type=fields)))
