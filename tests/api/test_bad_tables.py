"""Tables that cannot be, through every entrance: an error, and nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import (
    BayouError,
    IcebergCompatError,
    SchemaError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel import Operation, Table
from bayou.kernel.arrow.types import from_arrow_schema
from support.refusals import refused, tree

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
    bayou.write(
        path, wanted.rows(), partition_by=wanted.partition_by, configuration=wanted.properties
    )


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
    bayou.table(path).convert(partitions, configuration=wanted.properties)


def by_merge_schema(path: str, wanted: Wanted) -> None:
    bayou.write(path, wanted.rows(), configuration=wanted.properties, merge_schema=True)


def by_merge_evolution(path: str, wanted: Wanted) -> None:
    if wanted.properties:
        bayou.table(path).alter.set_table_properties(wanted.properties)
    merge = bayou.table(path).merge(wanted.rows(), "target.k = source.k", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def by_alter(path: str, wanted: Wanted) -> None:
    alter = bayou.table(path).alter
    if wanted.properties:
        alter.set_table_properties(wanted.properties)
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
        wanted=Wanted(schema=pa.schema([])), entrances=NEW, words=("without columns",)
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
        words=("'s'", "without fields"),
    ),
    "a struct without a field, in a map": BadTable(
        wanted=columns(pa.field("m", pa.map_(pa.string(), pa.struct([])))),
        entrances={**NEW, **GROWN},
        words=("'m.value'", "without fields"),
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
        entrances={"transaction": new_by_transaction},
        words=("'A'", "Did you mean 'a'?"),
    ),
    "a partition column twice": BadTable(
        wanted=columns(pa.field("a", pa.int64()), partition_by=("a", "a")),
        entrances=NEW,
        words=("listed twice",),
    ),
    "a nested partition column": BadTable(
        wanted=columns(pa.field("s", pa.struct([("a", pa.int64())])), partition_by=("s",)),
        entrances=NEW,
        words=("'s'", "can't be a partition column"),
    ),
    "no column but those of partitions": BadTable(
        wanted=columns(partition_by=("k",)),
        entrances=NEW,
        words=("all columns are partition columns",),
    ),
    "an unknown property": bad_property("delta.nosuchthing", "1", "unknown table property"),
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
        "delta.dataSkippingStatsColumns", "k, K", "listed twice"
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
        words=("'m'", "minimum and maximum"),
    ),
    "a feature that nobody knows": BadTable(
        wanted=with_property("delta.feature.noSuchThing", "supported"),
        entrances={**NEW, "merge schema": by_merge_schema, "alter": by_alter},
        error=UnsupportedFeatureError,
        words=("noSuchThing",),
    ),
    "Iceberg compatibility without column mapping": BadTable(
        wanted=Wanted(
            schema=pa.schema([K]),
            properties={
                "delta.enableIcebergCompatV2": "true",
                "delta.columnMapping.mode": "none",
            },
        ),
        entrances={**NEW, "merge schema": by_merge_schema, "alter": by_alter},
        error=IcebergCompatError,
        words=("delta.columnMapping.mode = name",),
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
        bayou.write(path, pa.table({"k": [1]}), configuration=turned_on)
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
    bayou.write(path, pa.table({"k": [1]}), configuration={"delta.enableRowTracking": "true"})
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
    bayou.write(path, pa.table({"k": [1, 2, 3], name: ["a", "b", "c"]}), configuration=properties)
    table = bayou.table(path)
    table.delete("k = 1")
    table.update({f"`{name}`": "'z'"}, predicate="k = 2")
    source = pa.table({"k": [3, 4], name: ["m", "n"]})
    merge = table.merge(source, "target.k = source.k").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    table.optimize()
    rows = table.to_arrow().sort_by("k").to_pylist()
    assert rows == [{"k": 2, name: "z"}, {"k": 3, name: "m"}, {"k": 4, name: "n"}]
    assert table.to_arrow([name], filter=f"`{name}` = 'm'").to_pylist() == [{name: "m"}]
