"""What a table asks of rows: every rule refuses by name, and nothing is written."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bayou.api.rows.read import PlannedRead
from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    MetadataChangedError,
    SchemaError,
    UnsupportedFeatureError,
)
from bayou.kernel import Engine, Operation, Table, Transaction, TransactionState, write_data
from bayou.kernel.arrow.types import from_arrow_schema, to_arrow_type
from bayou.kernel.scan.scan_file import data_file_path
from bayou.protocol.column_metadata import identity_column
from bayou.protocol.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)


def column(name: str, data_type: DataType = LONG, *, null: bool = True, **meta: object):
    return StructField(name=name, data_type=data_type, nullable=null, metadata=meta)


def marked(name: str, data_type: DataType, metadata: dict[str, object]) -> StructField:
    return StructField(name=name, data_type=data_type, metadata=metadata)


def invariant(text: str) -> dict[str, object]:
    return {"delta.invariants": json.dumps({"expression": {"expression": text}})}


def create(
    engine: Engine, path: str, *fields: StructField, by: tuple[str, ...] = (), **constraints: str
) -> Table:
    table = Table.for_path(engine, path)
    builder = table.create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
    properties = {f"delta.constraints.{k}": v for k, v in constraints.items()}
    builder = builder.with_schema(StructType(fields)).with_partition_columns(by)
    builder.with_table_properties(properties).build(engine).commit(engine, [])
    return table


def begin(engine: Engine, table: Table, rows: pa.Table) -> Transaction:
    builder = table.create_transaction_builder(engine, "test/1", Operation.WRITE)
    return builder.with_schema(from_arrow_schema(rows.schema)).build(engine)


def append(engine: Engine, table: Table, rows: pa.Table) -> list[dict]:
    """Append rows; all rows of the table's files, as they stand in them."""
    transaction = begin(engine, table, rows)
    state = transaction.transaction_state(engine)
    transaction.commit(engine, write_data(engine, state, rows.to_batches()))
    return contents(engine, table)


def contents(engine: Engine, table: Table) -> list[dict]:
    rows = PlannedRead.plan(engine, table.latest_snapshot(engine), None, None, None).to_arrow()
    return rows.to_pylist()


def refused(engine: Engine, table: Table, rows: pa.Table, match: str) -> ConstraintViolationError:
    before = table.latest_snapshot(engine).version
    with pytest.raises(ConstraintViolationError, match=match) as caught:
        append(engine, table, rows)
    assert table.latest_snapshot(engine).version == before
    assert contents(engine, table) == []
    return caught.value


def test_a_check_constraint_names_itself_and_a_row(engine, table_path):
    table = create(engine, table_path, column("n"), column("m"), small="n < 10 OR m IS NULL")
    rows = pa.table({"n": [1, 11], "m": [None, 7]})
    error = refused(engine, table, rows, r"CHECK constraint small: .*n = 11, m = 7")
    assert error.constraint == "CHECK constraint small"
    assert len(append(engine, table, rows.slice(0, 1))) == 1


def test_null_does_not_pass_a_check(engine, table_path):
    table = create(engine, table_path, column("n"), small="n < 10")
    refused(engine, table, pa.table({"n": pa.array([None], pa.int64())}), "n = None")


def test_an_expression_that_fails_on_a_row_is_a_violation(engine, table_path):
    table = create(engine, table_path, column("n"), ratio="100 / n > 1")
    refused(engine, table, pa.table({"n": [0]}), "can't be evaluated")


def test_a_constraint_that_is_not_understood_is_refused_by_name(engine, table_path):
    table = create(engine, table_path, column("n"), odd="some_udf(n)")
    with pytest.raises(UnsupportedFeatureError, match=r"CHECK constraint odd.*some_udf"):
        append(engine, table, pa.table({"n": [1]}))


@pytest.mark.parametrize(
    ("fields", "by", "constraints", "owner"),
    [
        ([marked("g", DOUBLE, {"delta.generationExpression": "exp(n)"})], (), {}, "column g"),
        (
            [marked("g", LONG, {"delta.generationExpression": "floor(LOG10(n))"})],
            ("g",),
            {},
            "generated column g",
        ),
        ([], (), {"near": "n > 0 AND power(n, 0.5) < 10"}, "CHECK constraint near"),
        ([marked("m", DOUBLE, invariant("cbrt(m) < 2"))], (), {}, "invariant of column m"),
    ],
)
def test_an_inexact_function_in_the_table_s_metadata_is_refused_by_name(
    engine, table_path, fields, by, constraints, owner
):
    table = create(engine, table_path, column("n"), *fields, by=by, **constraints)
    match = rf"{owner} isn't supported: The results of (exp|log10|pow|cbrt) may differ"
    with pytest.raises(UnsupportedFeatureError, match=match):
        append(engine, table, pa.table({"n": [1]}))


def test_an_inexact_function_may_compute_a_default(engine, table_path):
    default = marked("d", DOUBLE, {"CURRENT_DEFAULT": "exp(0)"})
    table = create(engine, table_path, column("n"), default)
    assert append(engine, table, pa.table({"n": [1]})) == [{"n": 1, "d": 1.0}]


def test_invariants_hold_at_every_depth_of_structs(engine, table_path):
    inner = StructType((marked("x", LONG, invariant("s.x > 3")),))
    table = create(engine, table_path, column("s", inner))
    error = refused(engine, table, pa.table({"s": [{"x": 4}, {"x": 3}]}), r"s = \{'x': 3\}")
    assert error.constraint == "invariant of column s.x"
    assert append(engine, table, pa.table({"s": [{"x": 4}]})) == [{"s": {"x": 4}}]


def test_nulls_are_refused_at_every_depth(engine, table_path):
    inner = StructType((column("x", LONG, null=False),))
    table = create(engine, table_path, column("s", inner), column("n", LONG, null=False))
    nothing = pa.array([None], pa.int64())
    error = refused(engine, table, pa.table({"s": [{"x": 1}], "n": nothing}), "column 'n'")
    assert error.constraint == "NOT NULL n"
    inside = pa.array([{"x": None}], pa.struct([("x", pa.int64())]))
    rows = pa.table({"s": inside, "n": [1]})
    assert refused(engine, table, rows, r"column 's\.x'").constraint == "NOT NULL s.x"


def test_an_empty_text_in_a_partition_column_is_null_to_the_rules(engine, table_path):
    columns = column("id"), column("p", STRING, null=False)
    table = create(engine, f"{table_path}/strict", *columns, by=("p",))
    refused(engine, table, pa.table({"id": [1], "p": [""]}), "'p' is NOT NULL")
    checked = create(engine, table_path, column("id"), column("p", STRING), by=("p",), c="p >= ''")
    refused(engine, checked, pa.table({"id": [1, 2], "p": ["a", ""]}), "CHECK constraint c")
    plain = create(engine, f"{table_path}/plain", column("id"), column("p", STRING), by=("p",))
    assert append(engine, plain, pa.table({"id": [1], "p": [""]})) == [{"id": 1, "p": None}]


def test_a_generated_column_is_made_and_where_given_checked(engine, table_path):
    day = marked("day", DATE, {"delta.generationExpression": "CAST(at AS DATE)"})
    table = create(engine, table_path, column("at", TIMESTAMP), day, by=("day",))
    at = pa.array([0, 86_400_000_000, None], pa.timestamp("us", "UTC"))
    wrong = pa.table({"at": at, "day": pa.array([0, 0, None], pa.date32())})
    error = refused(engine, table, wrong, r"the generation expression CAST\(at AS DATE\) returns")
    assert error.constraint == "generated column day"
    found = append(engine, table, pa.table({"at": at}))
    assert sorted(str(row["day"]) for row in found) == ["1970-01-01", "1970-01-02", "None"]
    scan = table.latest_snapshot(engine).scan_builder().with_filter("day = DATE'1970-01-02'")
    assert sum(b.num_selected for b in scan.build().scan_files(engine)) == 1


def test_a_default_stands_where_the_rows_lack_the_column(engine, table_path):
    table = create(
        engine,
        table_path,
        column("n"),
        marked("s", STRING, {"CURRENT_DEFAULT": "upper('abc')"}),
        marked("i", INTEGER, {"CURRENT_DEFAULT": "1 + 1"}),
    )
    found = append(engine, table, pa.table({"n": [1, 2], "s": ["x", None]}))
    assert found == [{"n": 1, "s": "x", "i": 2}, {"n": 2, "s": None, "i": 2}]


@pytest.mark.parametrize("kind", ["varchar(3)", "char(3)"])
def test_a_text_that_is_too_long_is_refused(engine, table_path, kind):
    table = create(engine, table_path, marked("s", STRING, {"__CHAR_VARCHAR_TYPE_STRING": kind}))
    error = refused(engine, table, pa.table({"s": ["abc", "äöüß"]}), "'äöüß' is longer")
    assert kind in error.constraint
    assert len(append(engine, table, pa.table({"s": ["äöü", None]}))) == 2


@pytest.mark.parametrize(
    ("data_type", "kind", "good", "bad", "name"),
    [
        (
            StructType((column("x", STRING),)),
            "struct<x:varchar(3)>",
            [{"x": "abc"}, {"x": None}, None],
            [{"x": "abc"}, {"x": "abcd"}],
            "s.x",
        ),
        (
            ArrayType(element_type=STRING),
            "array<char(3)>",
            [["abc   ", None], [], None],
            [[], ["abc", "abcd"]],
            "s.element",
        ),
        (
            MapType(key_type=STRING, value_type=ArrayType(element_type=STRING)),
            "map<varchar(1),array<varchar(3)>>",
            [{"k": ["abc"]}, None, {}],
            [{"k": ["abc"]}, {"k": ["abcd"]}],
            "s.value.element",
        ),
    ],
    ids=["struct", "array", "map"],
)
def test_a_length_limit_holds_inside_of_a_column(
    engine, table_path, data_type, kind, good, bad, name
):
    field = marked("s", data_type, {"__CHAR_VARCHAR_TYPE_STRING": kind})
    table = create(engine, table_path, field)
    arrow = to_arrow_type(data_type)
    error = refused(engine, table, pa.table({"s": pa.array(bad, arrow)}), "'abcd' is longer")
    assert error.constraint.startswith(f"{name} ")
    assert len(append(engine, table, pa.table({"s": pa.array(good, arrow)}))) == len(good)


def test_a_length_limit_of_a_column_that_holds_no_text_is_passed_over(engine, table_path):
    field = marked("n", LONG, {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"})
    table = create(engine, table_path, field)
    assert append(engine, table, pa.table({"n": [12345]})) == [{"n": 12345}]


def test_a_length_limit_that_cannot_be_read_is_refused_by_name(engine, table_path):
    field = marked("s", STRING, {"__CHAR_VARCHAR_TYPE_STRING": "varchar(many)"})
    table = create(engine, table_path, field)
    with pytest.raises(UnsupportedFeatureError, match="'s'"):
        append(engine, table, pa.table({"s": ["abc"]}))


def identity(start: int = 1, step: int = 1, *, explicit: bool = False) -> StructField:
    return marked(
        "id",
        LONG,
        {
            "delta.identity.start": start,
            "delta.identity.step": step,
            "delta.identity.allowExplicitInsert": explicit,
        },
    )


def mark(engine: Engine, table: Table) -> int | None:
    found = identity_column(table.latest_snapshot(engine).schema.fields[0])
    assert found is not None
    return found.high_water_mark


@pytest.mark.parametrize(("start", "step"), [(1, 1), (10, 5), (-3, -2)])
def test_identity_values_go_on_from_the_high_water_mark(engine, table_path, start, step):
    table = create(engine, table_path, identity(start, step), column("n"))
    rows = pa.table({"n": [0, 0, 0]})
    append(engine, table, rows)
    found = append(engine, table, rows)
    assert sorted((r["id"] for r in found), key=lambda v: v * step) == [
        start + step * i for i in range(6)
    ]
    assert mark(engine, table) == start + step * 5
    assert len(table.latest_snapshot(engine).protocol.writer_features or []) > 0


def test_identity_values_of_a_partition_column_go_on_too(engine, table_path):
    table = create(engine, table_path, identity(), column("n"), by=("id",))
    rows = pa.table({"n": [0, 0]})
    append(engine, table, rows)
    found = append(engine, table, rows)
    assert sorted(r["id"] for r in found) == [1, 2, 3, 4]


def test_identity_values_are_given_out_once(engine, table_path):
    table = create(engine, table_path, identity(), column("n"))
    rows = pa.table({"n": [0, 0]})
    first, second = begin(engine, table, rows), begin(engine, table, rows)
    for transaction in (first, second):
        state = transaction.transaction_state(engine)
        again = transaction.transaction_state(engine)
        adds = write_data(engine, state, rows.to_batches())
        adds += write_data(engine, again, rows.to_batches())
        if transaction is first:
            transaction.commit(engine, adds)
        else:
            with pytest.raises(MetadataChangedError):
                transaction.commit(engine, adds)
    assert sorted(r["id"] for r in contents(engine, table)) == [1, 2, 3, 4]


def test_writers_of_one_transaction_share_the_numbers(engine, table_path):
    table = create(engine, table_path, identity(), column("n"))
    rows = pa.table({"n": [0, 0, 0]})
    transaction = begin(engine, table, rows)
    sent = transaction.transaction_state(engine).to_bytes()
    with pytest.raises(ArgumentError, match="for_writer"):
        write_data(engine, TransactionState.from_bytes(sent), rows.to_batches())
    adds = []
    for i in range(2):
        state = TransactionState.from_bytes(sent).for_writer(i, 2)
        adds += write_data(engine, state, rows.to_batches())
    transaction.commit(engine, adds)
    assert sorted(r["id"] for r in contents(engine, table)) == [1, 2, 3, 4, 5, 6]
    assert mark(engine, table) == 6


def test_values_given_to_an_identity_column_need_by_default(engine, table_path):
    rows = pa.table({"id": [7], "n": [0]})
    table = create(engine, table_path, identity(), column("n"))
    with pytest.raises(SchemaError, match="GENERATED ALWAYS"):
        append(engine, table, rows)
    other = create(engine, f"{table_path}2", identity(explicit=True), column("n"))
    assert append(engine, other, rows) == [{"id": 7, "n": 0}]
    assert mark(engine, other) is None
    found = append(engine, other, rows.select(["n"]))
    assert sorted(r["id"] for r in found) == [1, 7]


def test_an_append_without_identity_goes_behind_one_with(engine, table_path):
    table = create(engine, table_path, identity(explicit=True), column("n"))
    late = begin(engine, table, pa.table({"id": [5], "n": [0]}))
    append(engine, table, pa.table({"n": [0]}))
    adds = write_data(
        engine, late.transaction_state(engine), pa.table({"id": [5], "n": [0]}).to_batches()
    )
    assert late.commit(engine, adds).version == 2
    assert mark(engine, table) == 1


def test_a_failed_write_leaves_no_file(engine, table_path):
    table = create(engine, table_path, column("n"), small="n < 10")
    with pytest.raises(ConstraintViolationError):
        append(engine, table, pa.table({"n": list(range(20))}))
    names = [s.path for s in engine.files.list_from(data_file_path(table.path, "a"))]
    assert not [n for n in names if n.endswith(".parquet")]
