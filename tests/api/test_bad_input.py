"""Bad input, through every entrance: an error that names what is wrong, and nothing written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import (
    ArgumentError,
    BayouError,
    ConstraintViolationError,
    EvaluationError,
    FileMissingError,
    PredicateError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel import Operation, Table, Transaction, write_data
from bayou.kernel.arrow_types import from_arrow_schema
from bayou.protocol.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

NESTED = StructType(
    (
        StructField(name="strict", data_type=LONG, nullable=False),
        StructField(name="free", data_type=STRING),
    )
)
RULES = StructType(
    (
        StructField(name="id", data_type=LONG, nullable=False),
        StructField(name="part", data_type=STRING),
        StructField(name="day", data_type=DATE),
        StructField(name="amount", data_type=DecimalType(5, 2)),
        StructField(name="rate", data_type=DOUBLE),
        StructField(name="at", data_type=TIMESTAMP),
        StructField(
            name="code", data_type=STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
        ),
        StructField(
            name="twice", data_type=LONG, metadata={"delta.generationExpression": "id * 2"}
        ),
        StructField(
            name="age",
            data_type=INTEGER,
            metadata={"delta.invariants": '{"expression": {"expression": "age < 150"}}'},
        ),
        StructField(name="s", data_type=NESTED),
        StructField(name="list", data_type=ArrayType(element_type=NESTED, contains_null=True)),
        StructField(
            name="map",
            data_type=MapType(key_type=STRING, value_type=LONG, value_contains_null=False),
        ),
    )
)
"""A table with a rule of every kind, partitioned by `part`."""


def make_table(path: str) -> None:
    engine = for_path(path)
    (
        Table.for_path(engine, path)
        .create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
        .with_schema(RULES)
        .with_partition_columns(["part"])
        .with_table_properties({"delta.constraints.positive": "id > 0"})
        .build(engine)
        .commit(engine, [])
    )
    bayou.write(path, good())


def good(**changed: Any) -> pa.Table:
    """A row that the table takes, columns replaced, or taken out where they are None."""
    columns: dict[str, Any] = {
        "id": pa.array([1]),
        "part": pa.array(["a"]),
        "day": pa.array([dt.date(2024, 1, 5)]),
        "amount": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
        "rate": pa.array([0.5]),
        "at": pa.array([dt.datetime(2024, 1, 5, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
        "code": pa.array(["abc"]),
        "twice": pa.array([2]),
        "age": pa.array([40], pa.int32()),
        "s": pa.array([{"strict": 1, "free": "x"}]),
        "list": pa.array([[{"strict": 1, "free": "x"}]]),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    columns |= changed
    return pa.table({name: column for name, column in columns.items() if column is not None})


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: files with their bytes, folders with None."""
    return {
        str(found.relative_to(folder)): found.read_bytes() if found.is_file() else None
        for found in folder.rglob("*")
    }


def refused(
    folder: Path,
    action: Callable[[], object],
    error: type[BayouError],
    words: tuple[str, ...],
) -> BayouError:
    """The error of an action that must change nothing."""
    before = tree(folder)
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert message.endswith((".", "?"))
    assert "<class" not in message
    assert tree(folder) == before
    return caught.value


# Entrances for rows into a table that is there.


def by_write(path: str, rows: pa.Table) -> None:
    bayou.write(path, rows)


def by_overwrite(path: str, rows: pa.Table) -> None:
    bayou.write(path, rows, mode="overwrite")


def by_transaction(path: str, rows: pa.Table) -> None:
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    builder = snapshot.build_update_table_transaction("test/1", Operation.WRITE)
    transaction = builder.build(engine)
    state = transaction.transaction_state(engine)
    transaction.commit(engine, write_data(engine, state, rows.to_batches()))


def by_steps(path: str, rows: pa.Table) -> None:
    """As a connector does that knows its rows' partition."""
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    transaction = snapshot.build_update_table_transaction("test/1", Operation.WRITE).build(engine)
    state = transaction.transaction_state(engine)
    values = {"part": rows.column("part")[0].as_py()}
    batches = Transaction.transform_logical_data(
        engine, state, rows.drop_columns(["part"]).to_batches(), values
    )
    context = Transaction.get_write_context(engine, state, values)
    statuses = engine.parquet.write_parquet_files(
        context.target_directory, batches, context.statistics_columns, context.options
    )
    actions = Transaction.generate_append_actions(engine, state, statuses, context)
    transaction.commit(engine, actions)


def by_merge(path: str, rows: pa.Table) -> None:
    merge = bayou.table(path).merge(rows, "target.rate = 12345.0")
    merge.when_not_matched_insert_all().execute()


ROW_ENTRANCES: dict[str, Callable[[str, pa.Table], None]] = {
    "write": by_write,
    "overwrite": by_overwrite,
    "transaction": by_transaction,
    "steps": by_steps,
    "merge": by_merge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRows:
    """Rows that a table with rules refuses.

    Attributes:
        words: parts of the message: column, constraint, value.
        but: entrances with another outcome; None: the rows are taken.
    """

    rows: Callable[[], pa.Table]
    error: type[BayouError]
    words: tuple[str, ...]
    but: Mapping[str, type[BayouError] | None] = field(default_factory=dict)
    words_but: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def invalid_text() -> pa.Array:
    data = pa.array([b"\xff\xfe"])
    return pa.Array.from_buffers(pa.string(), 1, data.buffers())


CAST = {"merge": EvaluationError}
"""MERGE casts, as delta-spark does; what can't be cast fails."""

LONG_PART = "x" * 254

BAD_ROWS: dict[str, BadRows] = {
    "another type": BadRows(
        rows=lambda: good(id=pa.array(["one"])),
        error=SchemaError,
        words=("'id'",),
        but=CAST,
    ),
    "a type that a merge alone casts": BadRows(
        rows=lambda: good(id=pa.array([3], pa.int32()), twice=pa.array([6])),
        error=SchemaError,
        words=("'id'", "long"),
        but={"merge": None},
    ),
    "another type in a struct": BadRows(
        rows=lambda: good(s=pa.array([{"strict": "one", "free": "x"}])),
        error=SchemaError,
        words=("s.strict",),
        but=CAST,
        words_but={"merge": ("strict",)},
    ),
    "another type in a list": BadRows(
        rows=lambda: good(list=pa.array([[{"strict": "one", "free": "x"}]])),
        error=SchemaError,
        words=("list.element.strict",),
        but=CAST,
        words_but={"merge": ("list",)},
    ),
    "a scalar for a struct": BadRows(
        rows=lambda: good(s=pa.array([1])),
        error=SchemaError,
        words=("'s'",),
    ),
    "null": BadRows(
        rows=lambda: good(id=pa.array([None], pa.int64()), twice=pa.array([None], pa.int64())),
        error=ConstraintViolationError,
        words=("'id'", "may not be null", "1 of 1"),
    ),
    "null in a struct": BadRows(
        rows=lambda: good(s=pa.array([{"strict": None, "free": "x"}])),
        error=ConstraintViolationError,
        words=("'s.strict'", "may not be null", "free = 'x'"),
    ),
    "null in a struct in a list": BadRows(
        rows=lambda: good(list=pa.array([[{"strict": None, "free": "x"}]])),
        error=ConstraintViolationError,
        words=("'list.element.strict'", "may not be null"),
    ),
    "null in a map": BadRows(
        rows=lambda: good(map=pa.array([[("k", None)]], pa.map_(pa.string(), pa.int64()))),
        error=ConstraintViolationError,
        words=("'map.value'", "may not be null"),
    ),
    "a missing column that may not be null": BadRows(
        rows=lambda: good(id=None, twice=None),
        error=SchemaError,
        words=("'id'", "may not be null"),
        but={
            "transaction": ConstraintViolationError,
            "steps": ConstraintViolationError,
            "merge": PredicateError,
        },
        words_but={"merge": ("'id'",)},
    ),
    "a broken CHECK": BadRows(
        rows=lambda: good(id=pa.array([-5]), twice=pa.array([-10])),
        error=ConstraintViolationError,
        words=("CHECK constraint positive", "id > 0", "id = -5"),
    ),
    "a broken invariant": BadRows(
        rows=lambda: good(age=pa.array([200], pa.int32())),
        error=ConstraintViolationError,
        words=("invariant of column age", "age < 150", "age = 200"),
    ),
    "a generated column's other value": BadRows(
        rows=lambda: good(twice=pa.array([7])),
        error=ConstraintViolationError,
        words=("generated column twice", "id * 2", "7"),
    ),
    "a text that is too long": BadRows(
        rows=lambda: good(code=pa.array(["abcdef"])),
        error=ConstraintViolationError,
        words=("'code'", "varchar(3)", "'abcdef'"),
    ),
    "a column twice": BadRows(
        rows=lambda: good().append_column("ID", pa.array([1])),
        error=SchemaError,
        words=("'ID'", "Rename one"),
    ),
    "a field twice": BadRows(
        rows=lambda: good(
            s=pa.StructArray.from_arrays([pa.array([1]), pa.array([1])], ["strict", "STRICT"])
        ),
        error=SchemaError,
        words=("'s.STRICT'", "Rename one"),
    ),
    "a column that the table lacks": BadRows(
        rows=lambda: good(more=pa.array([1])),
        error=SchemaError,
        words=("'more'",),
        but={"merge": None},
    ),
    "a field that the table lacks": BadRows(
        rows=lambda: good(s=pa.array([{"strict": 1, "more": 1}])),
        error=SchemaError,
        words=("'s.more'",),
        words_but={"merge": ("'s'", "'more'")},
    ),
    "a type that Delta lacks": BadRows(
        rows=lambda: good(day=pa.array([1], pa.time64("us"))),
        error=SchemaError,
        words=("'day'", "time64[us]"),
    ),
    "a type of no order that Delta lacks, nested": BadRows(
        rows=lambda: good(s=pa.array([{"strict": 1, "free": dt.timedelta(1)}])),
        error=SchemaError,
        words=("'s.free'", "duration[us]"),
    ),
    "a decimal of more digits": BadRows(
        rows=lambda: good(amount=pa.array([Decimal("12345.50")], pa.decimal128(7, 2))),
        error=SchemaError,
        words=("'amount'", "decimal(5,2)"),
        but=CAST,
    ),
    "a decimal of more digits than any": BadRows(
        rows=lambda: good(amount=pa.array([Decimal("1.5")], pa.decimal256(50, 2))),
        error=SchemaError,
        words=("'amount'", "decimal256(50, 2)"),
    ),
    "a time finer than the table's": BadRows(
        rows=lambda: good(at=pa.array([1_001], pa.timestamp("ns", "UTC"))),
        error=SchemaError,
        words=("'at'", "1001"),
    ),
    "a time out of range": BadRows(
        rows=lambda: good(at=pa.array([2**60], pa.timestamp("s", "UTC"))),
        error=SchemaError,
        words=("'at'", str(2**60)),
    ),
    "a day that isn't whole": BadRows(
        rows=lambda: good(day=pa.array([1], pa.int64()).cast(pa.date64(), safe=False)),
        error=SchemaError,
        words=("'day'",),
    ),
    "a partition that is too long for a folder": BadRows(
        rows=lambda: good(part=pa.array([LONG_PART])),
        error=SchemaError,
        words=("'part'", "255"),
    ),
    "a partition that is too long once escaped": BadRows(
        rows=lambda: good(part=pa.array(["%" * 90])),
        error=SchemaError,
        words=("'part'", "%25%25"),
    ),
    "a partition that isn't UTF-8": BadRows(
        rows=lambda: good(part=invalid_text()),
        error=SchemaError,
        words=("'part'", "0xff"),
        but={"steps": None},  # no Python text of it to give
    ),
    "a text in a struct of another kind of null": BadRows(
        rows=lambda: good(s=pa.array([[1]])),
        error=SchemaError,
        words=("'s'",),
    ),
}


@pytest.mark.parametrize("entrance", ROW_ENTRANCES)
@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(
    tmp_path: Path, name: str, entrance: str
) -> None:
    path = str(tmp_path / "table")
    make_table(path)
    bad = BAD_ROWS[name]
    if name == "a partition that isn't UTF-8" and entrance == "steps":
        return
    error = bad.but.get(entrance, bad.error)
    rows = bad.rows()
    if error is None:
        ROW_ENTRANCES[entrance](path, rows)
        return
    words = bad.words_but.get(entrance, bad.words)
    refused(tmp_path, lambda: ROW_ENTRANCES[entrance](path, rows), error, words)


# Entrances by which a table gets its schema, partitioning and properties.


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A table that can't be."""

    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> pa.Table:
        return self.schema.empty_table()


def new_by_write(path: str, wanted: Wanted) -> None:
    bayou.write(path, wanted.rows(), partition_by=wanted.partition_by, properties=wanted.properties)


def new_by_transaction(path: str, wanted: Wanted) -> None:
    engine = for_path(path)
    (
        Table.for_path(engine, path)
        .create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
        .with_schema(from_arrow_schema(wanted.schema, table=path))
        .with_partition_columns(wanted.partition_by)
        .with_table_properties(wanted.properties)
        .build(engine)
        .commit(engine, [])
    )


def new_by_convert(path: str, wanted: Wanted) -> None:
    columns = [f for f in wanted.schema if f.name not in wanted.partition_by]
    missing = set(wanted.partition_by) - set(wanted.schema.names)
    folders = "".join(f"/{name}=__HIVE_DEFAULT_PARTITION__" for name in wanted.partition_by)
    Path(path + folders).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.schema(columns).empty_table(), f"{path}{folders}/rows.parquet")
    partitions = pa.schema(
        [*(wanted.schema.field(n) for n in wanted.partition_by if n not in missing)]
    )
    bayou.table(path).convert(partitions, properties=wanted.properties)


def by_merge_schema(path: str, wanted: Wanted) -> None:
    bayou.write(path, wanted.rows(), properties=wanted.properties, merge_schema=True)


def by_merge_evolution(path: str, wanted: Wanted) -> None:
    if wanted.properties:
        bayou.table(path).alter.set_properties(wanted.properties)
    merge = bayou.table(path).merge(wanted.rows(), "target.k = source.k").with_schema_evolution()
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def by_alter(path: str, wanted: Wanted) -> None:
    alter = bayou.table(path).alter
    if wanted.properties:
        alter.set_properties(wanted.properties)
    alter.add_columns({f"`{f.name}`": f.type for f in wanted.schema if f.name != "k"})


K = pa.field("k", pa.int64())
FEED = {"delta.enableChangeDataFeed": "true"}
NEW = {"write": new_by_write, "transaction": new_by_transaction}
CONVERT = {"convert": new_by_convert}
GROWN = {"merge schema": by_merge_schema, "evolution": by_merge_evolution, "alter": by_alter}


def columns(*fields: pa.Field[Any], **more: Any) -> Wanted:
    return Wanted(schema=pa.schema([K, *fields]), **more)


def with_property(key: str, value: str) -> Wanted:
    return Wanted(schema=pa.schema([K]), properties={key: value})


@dataclass(frozen=True, slots=True, kw_only=True)
class BadTable:
    """A table that can't be, and the entrances by which somebody may ask for it."""

    wanted: Wanted
    entrances: Mapping[str, Callable[[str, Wanted], None]]
    words: tuple[str, ...]
    error: type[BayouError] = SchemaError


def bad_property(key: str, value: str, *words: str, **more: Any) -> BadTable:
    return BadTable(
        wanted=with_property(key, value),
        entrances={**NEW, "merge schema": by_merge_schema, "alter": by_alter},
        error=TablePropertyError,
        words=(key, *words),
        **more,
    )


BAD_TABLES: dict[str, BadTable] = {
    "no column": BadTable(
        wanted=Wanted(schema=pa.schema([])), entrances=NEW, words=("without a column",)
    ),
    "one name in two cases": BadTable(
        wanted=columns(pa.field("K", pa.int64())),
        entrances={**NEW, "merge schema": by_merge_schema, "alter": by_alter},
        words=("'K'",),
    ),
    "one name in two cases, nested": BadTable(
        wanted=columns(pa.field("s", pa.struct([("a", pa.int64()), ("A", pa.int64())]))),
        entrances={**NEW, **GROWN},
        words=("'s.A'", "twice"),
    ),
    "one name in two cases, in a list": BadTable(
        wanted=columns(pa.field("l", pa.list_(pa.struct([("a", pa.int64()), ("A", pa.int64())])))),
        entrances={**NEW, **GROWN},
        words=("'l.element.A'", "twice"),
    ),
    "a blank in a name": BadTable(
        wanted=columns(pa.field("a b", pa.int64())),
        entrances={**NEW, **GROWN, **CONVERT},
        words=("'a b'", "column mapping"),
    ),
    "a name that is empty": BadTable(
        wanted=columns(pa.field("", pa.int64())),
        entrances={**NEW, "merge schema": by_merge_schema},
        words=("''",),
    ),
    "a name under which rows tell of themselves": BadTable(
        wanted=columns(pa.field("_metadata.row_id", pa.int64())),
        entrances={**NEW, **GROWN},
        words=("'_metadata.row_id'",),
    ),
    "a struct without a field": BadTable(
        wanted=columns(pa.field("s", pa.struct([]))),
        entrances={**NEW, **GROWN},
        words=("'s'", "without a field"),
    ),
    "a struct without a field, in a map": BadTable(
        wanted=columns(pa.field("m", pa.map_(pa.string(), pa.struct([])))),
        entrances={**NEW, **GROWN},
        words=("'m.value'", "without a field"),
    ),
    "nothing but nulls": BadTable(
        wanted=columns(pa.field("n", pa.null())),
        entrances={**NEW, **GROWN},
        words=("'n'", "nulls"),
    ),
    "a type that Delta lacks": BadTable(
        wanted=columns(pa.field("t", pa.time64("us"))),
        entrances={**NEW, **GROWN, **CONVERT},
        words=("'t'", "time64[us]"),
    ),
    "a column of the feed": BadTable(
        wanted=columns(pa.field("_commit_version", pa.int64()), properties=FEED),
        entrances={**NEW, **GROWN, **CONVERT},
        words=("'_commit_version'", "feed"),
    ),
    "a column of the feed in another case": BadTable(
        wanted=columns(pa.field("_Change_Type", pa.string()), properties=FEED),
        entrances={**NEW, **GROWN, **CONVERT},
        words=("'_Change_Type'", "feed"),
    ),
    "an unknown partition column": BadTable(
        wanted=columns(pa.field("a", pa.int64()), partition_by=("day",)),
        entrances=NEW | CONVERT,
        words=("day",),
    ),
    "a partition column in another case": BadTable(
        wanted=columns(pa.field("a", pa.int64()), partition_by=("A",)),
        entrances=NEW,
        words=("'A'", "Did you mean 'a'?"),
    ),
    "a partition column twice": BadTable(
        wanted=columns(pa.field("a", pa.int64()), partition_by=("a", "a")),
        entrances=NEW,
        words=("named twice",),
    ),
    "a nested partition column": BadTable(
        wanted=columns(pa.field("s", pa.struct([("a", pa.int64())])), partition_by=("s",)),
        entrances=NEW,
        words=("'s'", "can't be a partition column"),
    ),
    "no column but those of partitions": BadTable(
        wanted=columns(partition_by=("k",)), entrances=NEW, words=("all of its columns",)
    ),
    "an unknown property": bad_property("delta.nosuchthing", "1", "there is no table property"),
    "a misspelled property": bad_property(
        "delta.enableChangeDataFed", "true", "did you mean 'delta.enableChangeDataFeed'?"
    ),
    "a property of writers": bad_property("delta.columnMapping.maxColumnId", "7", "set by writers"),
    "a boolean that isn't one": bad_property("delta.appendOnly", "yes", "true or false"),
    "an interval that isn't one": bad_property("delta.logRetentionDuration", "7", "interval"),
    "an interval below 0": bad_property(
        "delta.deletedFileRetentionDuration", "interval -7 days", "interval"
    ),
    "an interval of months": bad_property(
        "delta.setTransactionRetentionDuration", "interval 1 month", "months"
    ),
    "a codec that isn't one": bad_property("delta.parquet.compression.codec", "brotly", "zstd"),
    "a file size of nothing": bad_property("delta.targetFileSize", "0", "128mb"),
    "a number below its least": bad_property("delta.checkpointInterval", "0", "at least 1"),
    "a number that isn't one": bad_property("delta.randomPrefixLength", "two", "at least 1"),
    "fewer statistics than none": bad_property(
        "delta.dataSkippingNumIndexedCols", "-2", "at least -1"
    ),
    "a mode that isn't one": bad_property("delta.columnMapping.mode", "names", "none, name, id"),
    "an isolation that isn't one": bad_property("delta.isolationLevel", "None", "Serializable"),
    "a feature that isn't on or off": bad_property("delta.feature.deletionVectors", "on"),
    "statistics of no column": bad_property("delta.dataSkippingStatsColumns", "z", "'z'"),
    "statistics of half a name": bad_property("delta.dataSkippingStatsColumns", "`k", "separated"),
    "statistics of a column twice": bad_property(
        "delta.dataSkippingStatsColumns", "k, K", "named twice"
    ),
    "statistics of a partition column": BadTable(
        wanted=columns(
            pa.field("a", pa.int64()),
            partition_by=("a",),
            properties={"delta.dataSkippingStatsColumns": "a"},
        ),
        entrances=NEW,
        error=TablePropertyError,
        words=("'a'", "partition column"),
    ),
    "statistics of a map": BadTable(
        wanted=columns(
            pa.field("m", pa.map_(pa.string(), pa.int64())),
            properties={"delta.dataSkippingStatsColumns": "m"},
        ),
        entrances=NEW,
        error=TablePropertyError,
        words=("'m'", "no bounds"),
    ),
    "a feature that nobody knows": BadTable(
        wanted=with_property("delta.feature.noSuchThing", "supported"),
        entrances={**NEW, "merge schema": by_merge_schema, "alter": by_alter},
        error=UnsupportedFeatureError,
        words=("noSuchThing",),
    ),
    "a feature that isn't written": BadTable(
        wanted=with_property("delta.enableIcebergCompatV2", "true"),
        entrances={**NEW, "merge schema": by_merge_schema, "alter": by_alter},
        error=UnsupportedFeatureError,
        words=("icebergCompatV2",),
    ),
}


@pytest.mark.parametrize(
    ("name", "entrance"), [(name, e) for name, bad in BAD_TABLES.items() for e in bad.entrances]
)
def test_a_table_that_cannot_be_is_not_made(tmp_path: Path, name: str, entrance: str) -> None:
    path = str(tmp_path / "table")
    bad = BAD_TABLES[name]
    if entrance in GROWN:
        turned_on = {k: v for k, v in bad.wanted.properties.items() if k in FEED}
        bayou.write(path, pa.table({"k": [1]}), properties=turned_on)
        properties = {k: v for k, v in bad.wanted.properties.items() if k not in FEED}
        bad_wanted = Wanted(schema=bad.wanted.schema, properties=properties)
    else:
        bad_wanted = bad.wanted
    if entrance == "convert":
        # The folder and its file are there before: made once for the look, once for the test.
        with pytest.raises(BayouError):
            new_by_convert(path, bad_wanted)
        before = set(tree(tmp_path))
        with pytest.raises(bad.error) as caught:
            new_by_convert(path, bad_wanted)
        assert set(tree(tmp_path)) == before
        assert all(word in str(caught.value) for word in bad.words)
        return
    refused(tmp_path, lambda: bad.entrances[entrance](path, bad_wanted), bad.error, bad.words)


def test_row_tracking_keeps_its_columns_names_to_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    bayou.write(path, pa.table({"k": [1]}), properties={"delta.enableRowTracking": "true"})
    properties = bayou.table(path).snapshot().properties
    for key in ("materializedRowIdColumnName", "materializedRowCommitVersionColumnName"):
        name = properties[f"delta.rowTracking.{key}"]
        for taken in (name, name.upper()):
            rows = pa.table({"k": [2], taken: [1]})
            refused(
                tmp_path,
                lambda rows=rows: bayou.write(path, rows, merge_schema=True),
                SchemaError,
                (repr(taken), "row tracking"),
            )


@pytest.mark.parametrize(
    "name", ["_metadata", "__delta_internal_row_index", "_row-id-col-x", "_file", "_rowid", "a.b"]
)
def test_other_names_are_the_users(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "table")
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true", **FEED}
    bayou.write(path, pa.table({"k": [1, 2, 3], name: ["a", "b", "c"]}), properties=properties)
    table = bayou.table(path)
    table.delete("k = 1")
    table.update({f"`{name}`": "'z'"}, "k = 2")
    source = pa.table({"k": [3, 4], name: ["m", "n"]})
    merge = table.merge(source, "target.k = source.k").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    table.optimize()
    rows = table.to_arrow().sort_by("k").to_pylist()
    assert rows == [{"k": 2, name: "z"}, {"k": 3, name: "m"}, {"k": 4, name: "n"}]
    assert table.to_arrow([name], filter=f"`{name}` = 'm'").to_pylist() == [{name: "m"}]


# Values that an UPDATE makes.


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"id": "-5"}, ConstraintViolationError, ("positive", "id = -5")),
        ({"id": "NULL"}, ConstraintViolationError, ("'id'", "may not be null")),
        ({"s.strict": "NULL"}, ConstraintViolationError, ("'s.strict'", "may not be null")),
        ({"code": "'abcdef'"}, ConstraintViolationError, ("varchar(3)", "'abcdef'")),
        ({"age": "200"}, ConstraintViolationError, ("age < 150", "200")),
        ({"twice": "7"}, ConstraintViolationError, ("generated column twice", "7")),
        ({"amount": "12345.5"}, EvaluationError, ("'amount'", "12345.5")),
        ({"age": "9876543210"}, EvaluationError, ("'age'", "9876543210")),
        ({"id": "'one'"}, EvaluationError, ("'id'", "'one'")),
        ({"rate": "1 / 0"}, EvaluationError, ("'rate'", "zero")),
        ({"day": "'nonsense'"}, EvaluationError, ("'day'", "'nonsense'")),
        ({"part": f"'{LONG_PART}'"}, SchemaError, ("'part'", "255")),
        ({"more": "1"}, SchemaError, ("'more'",)),
        ({"s": "1"}, PredicateError, ("'s'",)),
        ({"s.strict": "1", "s": "NULL"}, SchemaError, ("set twice",)),
        ({}, ArgumentError, ("at least one",)),
        ({"rate": "more + 1"}, PredicateError, ("'more'",)),
        ({"rate": "rate +"}, PredicateError, ("rate +",)),
    ],
    ids=str,
)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_an_update_to_what_cannot_be_changes_nothing(
    tmp_path: Path, vectors: str, values: dict[str, str], error: type[BayouError], words: Any
) -> None:
    path = str(tmp_path / "table")
    make_table(path)
    bayou.table(path).alter.set_properties({"delta.enableDeletionVectors": vectors})
    refused(tmp_path, lambda: bayou.table(path).update(values), error, words)


# Places where no table can be.


def into_a_file(folder: Path) -> str:
    (folder / "table").write_text("not a table")
    return str(folder / "table")


def below_a_file(folder: Path) -> str:
    return into_a_file(folder) + "/below"


def beside_a_file_called_log(folder: Path) -> str:
    (folder / "table").mkdir()
    (folder / "table" / "_delta_log").write_text("not a log")
    return str(folder / "table")


def of_a_name_too_long(folder: Path) -> str:
    return str(folder / ("x" * 300))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (into_a_file, ("table is a file", "another path")),
        (below_a_file, ("table is a file", "another path")),
        (beside_a_file_called_log, ("_delta_log is a file", "another path")),
        (of_a_name_too_long, ("xxx", "too long")),
    ],
)
def test_a_place_where_no_table_can_be_is_named(
    tmp_path: Path, place: Callable[[Path], str], words: tuple[str, ...]
) -> None:
    path = place(tmp_path)
    error = StorageError if place is of_a_name_too_long else FileMissingError
    before = tree(tmp_path)
    with pytest.raises(error) as caught:
        bayou.write(path, pa.table({"k": [1]}))
    assert all(word in str(caught.value) for word in words)
    if place is not of_a_name_too_long:
        for action in (
            bayou.table(path).to_arrow,
            bayou.table(path).delete,
            bayou.table(path).vacuum,
            bayou.table(path).history,
        ):
            with pytest.raises(TableNotFoundError, match="is a file"):
                action()
        assert not bayou.table(path).exists()
    assert tree(tmp_path) == before


def test_a_log_without_commits_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    table = bayou.table(str(tmp_path / "table"))
    assert not table.exists()
    refused(tmp_path, table.to_arrow, TableNotFoundError, ("no Delta table", "_delta_log"))
    assert bayou.write(table.path, pa.table({"k": [1]})) == 0
