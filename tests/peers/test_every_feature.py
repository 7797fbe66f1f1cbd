"""Every table feature that we write: a table of ours, read by others, written on by delta-spark.

The cases are held against the features that the code says it writes: one without a case fails.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

import bayou
from bayou.engines import for_path
from bayou.errors import ConstraintViolationError
from bayou.kernel import Operation, Table
from bayou.protocol.features import FEATURES, all_features
from bayou.protocol.schema import DATE, INTEGER, LONG, STRING, TIMESTAMP, StructField, StructType
from bayou.testing import FileCatalog

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)

ROWS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "b", "a", None]})
MORE = pa.table({"id": [5, 6], "p": ["a", "c"]})
CHANGES = [
    "INSERT INTO {t} (id, p) VALUES (100, 'z'), (101, 'a')",
    "UPDATE {t} SET p = 'u' WHERE id = 1",
]
"""What delta-spark does to each table, unless its case says otherwise."""


def append(path: str, properties: Mapping[str, str] | None = None) -> None:
    """Two appends, the first makes the table."""
    bayou.write(path, ROWS, configuration=properties)
    bayou.write(path, MORE)


def change(path: str) -> None:
    """Rows are updated, deleted and merged."""
    table = bayou.table(path)
    table.update({"p": "'ours'"}, predicate="id = 5")
    table.delete("id = 2")
    source = pa.table({"id": [3, 7], "p": ["merged", "new"]})
    merge = table.merge(source, "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def used(properties: Mapping[str, str]) -> Callable[[str], None]:
    """A table made with properties, its rows changed in every way."""

    def make(path: str) -> None:
        append(path, properties)
        change(path)

    return make


def created(path: str, *fields: StructField, **properties: str) -> str:
    """An empty table of columns with what their metadata says."""
    engine = for_path(path)
    table = Table.for_path(engine, path)
    builder = table.create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
    builder = builder.with_schema(StructType(fields)).with_table_properties(properties)
    builder.build(engine).commit(engine, [])
    return path


def column(name: str, data_type: Any = LONG, **metadata: object) -> StructField:
    named = {key.replace("__", "."): value for key, value in metadata.items()}
    return StructField(name=name, data_type=data_type, metadata=named)


def invariants(path: str) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.string()),
        pa.field("s", inner),
        pa.field("l", pa.list_(pa.field("element", inner, nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
    ]
    rows = [
        {"id": 1, "p": "a", "s": {"x": 1}, "l": [{"x": 1}], "m": [("k", 1)]},
        {"id": 2, "p": None, "s": None, "l": None, "m": None},
        {"id": 3, "p": "c", "s": {"x": 2}, "l": [], "m": []},
    ]
    data = pa.Table.from_pylist(rows, pa.schema(fields))
    bayou.write(path, data)
    bayou.write(path, data.slice(1))
    bayou.table(path).update({"p": "'ours'"}, predicate="id = 1")


def constraints(path: str) -> None:
    append(path)
    bayou.table(path).alter.add_constraint({"positive": "id > 0 AND coalesce(p, '') <> 'never'"})
    change(path)
    with pytest.raises(ConstraintViolationError, match="positive"):
        bayou.write(path, pa.table({"id": [-1], "p": ["a"]}))


def generated(path: str) -> None:
    expressions = {
        "twice": (LONG, "id * 2"),
        "day": (DATE, "CAST(at AS DATE)"),
        "month": (STRING, "date_format(at, 'yyyy-MM')"),
        "part": (STRING, "substring(p, 1, 1)"),
        "year": (INTEGER, "year(at)"),
        "hour": (TIMESTAMP, "date_trunc('HOUR', at)"),
        "size": (STRING, "CASE WHEN id > 2 THEN 'big' ELSE 'small' END"),
        "label": (STRING, "concat(coalesce(p, 'none'), '-', CAST(id AS STRING))"),
        "half": (LONG, "CAST(floor(id / 2) AS BIGINT)"),
    }
    made = [
        column(name, kind, delta__generationExpression=text)
        for name, (kind, text) in expressions.items()
    ]
    created(path, column("id"), column("p", STRING), column("at", TIMESTAMP), *made)
    moment = dt.datetime(2024, 2, 29, 23, tzinfo=dt.UTC)
    at = pa.array([moment, None], pa.timestamp("us", "UTC"))
    bayou.write(path, pa.table({"id": [1, 2], "p": ["abc", None], "at": at}))
    bayou.write(path, pa.table({"id": [3], "p": ["ü"], "at": at.slice(0, 1)}))
    bayou.table(path).update({"id": "id + 10", "p": "'upd'"}, predicate="id = 3")


def identity(path: str) -> None:
    meta = {
        "delta__identity__start": 10,
        "delta__identity__step": 5,
        "delta__identity__allowExplicitInsert": False,
    }
    created(path, column("key", **meta), column("id"), column("p", STRING))
    append(path)
    table = bayou.table(path)
    table.delete("id = 2")
    merge = table.merge(pa.table({"id": [7], "p": ["new"]}), "target.id = source.id")
    merge.when_not_matched_insert({"id": "source.id", "p": "source.p"}).execute()


def distinct_keys(rows: list[dict[str, Any]]) -> None:
    keys = [row["key"] for row in rows]
    assert len(set(keys)) == len(keys)
    assert all(key % 5 == 0 for key in keys)


def defaults(path: str) -> None:
    append(path)
    alter = bayou.table(path).alter
    alter.add_feature("allowColumnDefaults")
    alter.add_column("n", "int")
    alter.set_default("n", "40 + 2")
    bayou.write(path, pa.table({"id": [8], "p": ["default"]}))
    table = bayou.table(path)
    table.update({"n": "n + 1"}, predicate="id = 8")
    merge = table.merge(pa.table({"id": [9]}), "target.id = source.id")
    merge.when_not_matched_insert({"id": "source.id"}).execute()


def mapped(path: str) -> None:
    append(path, {"delta.columnMapping.mode": "name"})
    alter = bayou.table(path).alter
    alter.rename_column("p", "p q")
    alter.add_column("gone", "int")
    alter.drop_columns("gone")
    bayou.write(path, pa.table({"id": [8], "p q": ["mapped"]}))
    alter.rename_column("p q", "p")
    change(path)


def domains(path: str) -> None:
    append(path)
    engine = for_path(path)
    snapshot = bayou.table(path).snapshot().kernel
    builder = snapshot.build_update_table_transaction("test/1", Operation.MANUAL_UPDATE)
    builder.with_domain_metadata("mine", '{"a": 1}').build(engine).commit(engine, [])
    change(path)


def clustered(path: str) -> None:
    append(path)
    bayou.table(path).alter.cluster_by("id")
    change(path)
    bayou.table(path).optimize()


def timestamps(path: str) -> None:
    moments = pa.array([dt.datetime(1600, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4), None])
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "b", None], "t": moments})
    bayou.write(path, rows, partition_by=["t"])
    bayou.write(path, rows.slice(1))
    bayou.table(path).update({"p": "'ours'"}, predicate="t > TIMESTAMP_NTZ'2000-01-01'")


def widened(path: str, properties: Mapping[str, str] | None = None) -> None:
    named = {"delta.enableTypeWidening": "true", **(properties or {})}
    kinds = {
        "n": pa.int32(),
        "f": pa.float32(),
        "d": pa.decimal128(5, 2),
        "l": pa.list_(pa.int16()),
    }
    rows = {"n": [1], "f": [0.5], "d": [1], "l": [[1, None]]}
    narrow = {name: pa.array(rows[name], kind) for name, kind in kinds.items()}
    bayou.write(path, pa.table({"id": [1], "p": ["a"], **narrow}), configuration=named)
    bayou.table(path).alter.change_type("d", "decimal(10,4)")
    wide = {
        "n": pa.array([1 << 40]),
        "f": pa.array([0.1]),
        "l": pa.array([[1 << 20]], pa.list_(pa.int32())),
    }
    bayou.write(path, pa.table({"id": [2], "p": ["b"], **wide}), merge_schema=True)
    source = pa.table({"id": [1, 3], "p": ["m", "n"], "l": pa.array([[1 << 40], None])})
    merge = bayou.table(path).merge(source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def widened_preview(path: str) -> None:
    widened(path, {"delta.feature.typeWidening-preview": "supported"})


def variants(properties: Mapping[str, str] | None = None) -> Callable[[str], None]:
    def make(path: str) -> None:
        texts = ['{"b": [1, 2.50, "x", null], "a": {"c": true}}', None, "null", '"text"']
        rows = ROWS.append_column("v", bayou.variants_from_json(texts))
        nested = pa.StructArray.from_arrays([bayou.variants_from_json(texts)], ["v"])
        rows = rows.append_column("s", nested)
        bayou.write(path, rows, configuration=properties)
        bayou.write(path, rows.slice(0, 2))
        table = bayou.table(path)
        table.update({"p": "'ours'"}, predicate="id = 2")
        table.delete("id = 4")
        source = pa.table({"id": [3, 7], "v": bayou.variants_from_json(["[3]", "-1.5e0"])})
        merge = table.merge(source, "target.id = source.id")
        merge = merge.when_matched_update({"v": "source.v"})
        merge.when_not_matched_insert({"id": "source.id", "v": "source.v"}).execute()
        table.optimize()

    return make


VARIANT_CHANGES = [
    "INSERT INTO {t} SELECT 100, 'z', parse_json('{{\"k\": [1, 2]}}'), named_struct('v', NULL)",
    "UPDATE {t} SET v = parse_json('{{\"u\": 1.25}}') WHERE id = 1",
]
VARIANT_COLUMNS = ["id", "p", "to_json(v) AS v", "to_json(s.v) AS sv"]


def protected(path: str) -> None:
    used({"delta.enableDeletionVectors": "true"})(path)
    bayou.table(path).alter.drop_feature("deletionVectors")


def materialized(path: str) -> None:
    properties = {"delta.enableMaterializePartitionColumnsFeature": "true"}
    bayou.write(path, ROWS, partition_by=["p"], configuration=properties)
    bayou.write(path, MORE)
    change(path)


def vacuumed(path: str) -> None:
    used({"delta.feature.vacuumProtocolCheck": "supported"})(path)
    table = bayou.table(path)
    assert not table.vacuum(dry_run=False).num_files_to_delete


def compatible(version: int) -> Callable[[str], None]:
    """A partitioned table with Iceberg compatibility; from version 2 on with arrays and maps."""

    def make(path: str) -> None:
        properties = {f"delta.enableIcebergCompatV{version}": "true"}
        rows = ROWS
        if version > 1:
            arrays = pa.array([[1], [], None, [None]], pa.list_(pa.int64()))
            maps = pa.array(
                [[("k", [1])], [], None, [("l", None)]], pa.map_(pa.string(), arrays.type)
            )
            rows = rows.append_column("a", arrays).append_column("m", maps)
        if version > 2:
            properties["delta.enableDeletionVectors"] = "true"
        bayou.write(path, rows, partition_by=["p"], configuration=properties)
        bayou.write(path, rows.slice(1))
        table = bayou.table(path)
        table.update({"p": "'ours'"}, predicate="id = 3")
        table.delete("id = 4")
        table.optimize()

    return make


def older_timestamps(path: str) -> None:
    rows = ROWS.append_column("t", pa.array([0, 1, None, 2], pa.timestamp("us")))
    bayou.write(path, rows, configuration={"delta.feature.timestampWithoutTimezone": "supported"})
    bayou.write(path, rows)


def located(feature: str | None = None) -> Callable[[str], None]:
    """A table with a geometry and a geography."""

    def make(path: str) -> None:
        properties = {} if feature is None else {f"delta.feature.{feature}": "supported"}
        columns = {"id": "bigint", "p": "string", "g": "geometry(3857)", "h": "geography(4326)"}
        bayou.create(path, columns, configuration=properties)
        points = [struct.pack("<BIdd", 1, 1, float(i), -1.5) for i in range(4)]
        rows = ROWS.append_column("g", pa.array([points[0], None, *points[2:]], pa.binary()))
        bayou.write(path, rows.append_column("h", pa.array(points, pa.binary())))
        bayou.write(path, MORE)
        table = bayou.table(path)
        table.update({"p": "'ours'"}, predicate="id = 3")
        table.delete("id = 4")
        table.optimize()

    return make


LOCATED_COLUMNS = ["id", "p", "hex(st_asbinary(g)) AS g", "hex(st_asbinary(h)) AS h"]
LOCATED_CHANGES = [
    "INSERT INTO {t} SELECT 100, 'z', g, h FROM {t} WHERE id = 1",
    "UPDATE {t} SET g = NULL WHERE id = 3",
]


def managed(name: str) -> Callable[[str], None]:
    return lambda path: _managed(path, name)


def _managed(path: str, name: str) -> None:
    catalog = FileCatalog(f"{path}_catalog")
    engine = for_path(path)
    table = Table.for_path(engine, path, catalog)
    builder = table.create_transaction_builder(engine, "test/1", Operation.CREATE_TABLE)
    builder = builder.with_schema(StructType((column("id"), column("p", STRING))))
    builder = builder.with_table_properties({f"delta.feature.{name}": "supported"})
    builder.build(engine).commit(engine, [])


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table with a feature in use.

    Attributes:
        make: makes it and writes to it.
        changes: what delta-spark does to it.
        columns: what is compared, as SQL for delta-spark; empty: all columns.
        refused: what delta-spark says, where it takes no such table.
        refuses: statements that it has to refuse.
        holds: what is to be true of the rows in the end.
    """

    make: Callable[[str], None]
    changes: list[str] = field(default_factory=lambda: CHANGES)
    columns: list[str] = field(default_factory=list)
    refused: str = ""
    refuses: Mapping[str, str] = field(default_factory=dict)
    holds: Callable[[list[dict[str, Any]]], None] = lambda rows: None


COMPAT_CHANGES = [
    "INSERT INTO {t} VALUES (100, 'z', array(7), map('x', array(8)))",
    "UPDATE {t} SET id = 50 WHERE id = 1",
    "ALTER TABLE {t} ADD COLUMN later ARRAY<INT>",
    "INSERT INTO {t} VALUES (101, 'y', array(7), map('x', array(8)), array(9))",
    "OPTIMIZE {t}",
]
VARIANTS = {"changes": VARIANT_CHANGES, "columns": VARIANT_COLUMNS}
CASES = {
    "appendOnly": Case(
        make=lambda path: append(path, {"delta.appendOnly": "true"}),
        changes=CHANGES[:1],
        refuses={"DELETE FROM {t} WHERE id = 1": "DELTA_CANNOT_MODIFY_APPEND_ONLY"},
    ),
    "invariants": Case(
        make=invariants,
        # delta-spark takes a null struct for one with a null in the field that may not be.
        changes=["INSERT INTO {t} SELECT 100, 'z', s, l, m FROM {t} WHERE id = 1"],
        refuses={"INSERT INTO {t} (id) VALUES (NULL)": "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"},
    ),
    "checkConstraints": Case(
        make=constraints,
        refuses={"INSERT INTO {t} VALUES (-1, 'a')": "DELTA_VIOLATE_CONSTRAINT"},
    ),
    "changeDataFeed": Case(make=used({"delta.enableChangeDataFeed": "true"})),
    "generatedColumns": Case(
        make=generated,
        changes=[
            "INSERT INTO {t} (id, p, at) VALUES (100, 'zz', TIMESTAMP'1969-12-31 23:00:00')",
            "UPDATE {t} SET p = 'u', id = 50 WHERE id = 1",
        ],
    ),
    "columnMapping": Case(make=mapped),
    "identityColumns": Case(make=identity, holds=distinct_keys),
    "allowColumnDefaults": Case(make=defaults),
    "deletionVectors": Case(make=used({"delta.enableDeletionVectors": "true"})),
    "rowTracking": Case(
        make=used({"delta.enableRowTracking": "true"}),
        columns=["id", "p", "_metadata.row_id", "_metadata.row_commit_version"],
    ),
    "timestampNtz": Case(make=timestamps),
    "domainMetadata": Case(make=domains),
    "v2Checkpoint": Case(
        make=used({"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"})
    ),
    **{
        name: Case(make=managed(name), refused="catalogManaged|catalogOwned")
        for name in ("catalogManaged", "catalogManaged-preview", "catalogOwned-preview")
    },
    "geospatial": Case(make=located(), changes=LOCATED_CHANGES, columns=LOCATED_COLUMNS),
    "geospatial-dev": Case(
        make=located("geospatial-dev"), changes=LOCATED_CHANGES, columns=LOCATED_COLUMNS
    ),
    "timestampWithoutTimezone": Case(make=older_timestamps, refused="timestampWithoutTimezone"),
    "icebergCompatV1": Case(make=compatible(1)),
    "icebergCompatV2": Case(make=compatible(2), changes=COMPAT_CHANGES),
    "icebergCompatV3": Case(
        make=compatible(3),
        changes=COMPAT_CHANGES,
        columns=["id", "p", "a", "m", "_metadata.row_id", "_metadata.row_commit_version"],
    ),
    "clustering": Case(make=clustered, changes=[*CHANGES, "OPTIMIZE {t}"]),
    "vacuumProtocolCheck": Case(make=vacuumed, changes=[*CHANGES, "VACUUM {t}"]),
    "inCommitTimestamp": Case(make=used({"delta.enableInCommitTimestamps": "true"})),
    "typeWidening": Case(make=widened),
    "typeWidening-preview": Case(make=widened_preview),
    "variantType": Case(make=variants(), **VARIANTS),
    "variantType-preview": Case(
        make=variants({"delta.feature.variantType-preview": "supported"}), **VARIANTS
    ),
    "variantShredding": Case(make=variants({"delta.enableVariantShredding": "true"}), **VARIANTS),
    "variantShredding-preview": Case(
        make=variants(
            {
                "delta.feature.variantShredding-preview": "supported",
                "delta.enableVariantShredding": "true",
            }
        ),
        **VARIANTS,
    ),
    "checkpointProtection": Case(make=protected),
    "materializePartitionColumns": Case(make=materialized),
}

NOT_READ_BY_DELTALAKE = {
    "vacuumProtocolCheck",
    "typeWidening",
    "typeWidening-preview",
    "variantShredding",
    "variantShredding-preview",
    "geospatial",
    "geospatial-dev",
    "timestampWithoutTimezone",
}
"""Features whose tables `deltalake` 1.6 refuses."""


def test_every_feature_that_we_write_has_a_case() -> None:
    assert set(CASES) == {f.name for f in FEATURES.values() if f.write}


@pytest.mark.parametrize("name", CASES)
def test_a_table_with_the_feature_is_read_by_others_and_written_on(
    delta_spark: DeltaSpark, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    path = tmp_path / "t"
    case.make(str(path))
    if case.refused:
        with pytest.raises(AssertionError, match=case.refused):
            delta_spark.read(path)
        return
    assert name in all_features(bayou.table(str(path)).snapshot().protocol)
    before = both(delta_spark, path, case.columns)
    read_by_deltalake(path, name)
    table = f"delta.`{path}`"
    for statement, message in case.refuses.items():
        with pytest.raises(AssertionError, match=message):
            delta_spark.sql(statement.format(t=table))
    for statement in case.changes:
        delta_spark.sql(statement.format(t=table))
    after = both(delta_spark, path, case.columns)
    assert after != before
    bayou.write(str(path), pa.table({"id": [200], "p": ["last"]}))
    case.holds(both(delta_spark, path, case.columns))
    assert name in all_features(bayou.table(str(path)).snapshot().protocol)


def both(delta_spark: DeltaSpark, path: Path, columns: list[str]) -> list[dict[str, Any]]:
    """Rows by their order, once both sides have read the same."""
    table = bayou.table(str(path))
    if "to_json(v) AS v" in columns:
        rows = table.to_arrow()
        inner = rows["s"].combine_chunks()
        ours = rows.select(["id", "p"])
        ours = ours.append_column("v", bayou.variants_to_json(rows["v"]))
        ours = ours.append_column("sv", bayou.variants_to_json(inner.flatten()[0]))
    elif columns == LOCATED_COLUMNS:
        ours = table.to_arrow()
        for name in ("g", "h"):
            values = [None if v is None else v.hex().upper() for v in ours[name].to_pylist()]
            position = ours.column_names.index(name)
            ours = ours.set_column(position, name, pa.array(values, pa.string()))
    else:
        ours = table.to_arrow(columns or None)
        ours = ours.rename_columns([n.removeprefix("_metadata.") for n in ours.column_names])
    theirs = delta_spark.read(path, columns=columns).select(ours.column_names)
    found = sorted(ours.to_pylist(), key=repr)
    assert found == sorted(theirs.to_pylist(), key=repr)
    return found


def read_by_deltalake(path: Path, name: str) -> None:
    """`deltalake` reads the same, or refuses."""
    query = deltalake.QueryBuilder()
    if name in NOT_READ_BY_DELTALAKE:
        with pytest.raises(DeltaError, match="Unsupported (table features|Delta table type)"):
            query.register("t", deltalake.DeltaTable(str(path)))
        return
    table = deltalake.DeltaTable(str(path))
    ours = bayou.table(str(path)).to_arrow()
    found = query.register("t", table).execute("SELECT * FROM t")
    theirs = pa.table(found).select(ours.column_names)
    assert sorted(theirs.to_pylist(), key=repr) == sorted(ours.to_pylist(), key=repr)
