"""The same merges by us and by delta-spark, on the same tables."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.errors import BayouError

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}

STRUCT = pa.struct({"x": pa.int64(), "y": pa.string()})
NARROW = pa.struct({"Y": pa.string()})
WIDE = pa.struct({"x": pa.int64(), "y": pa.string(), "z": pa.int32()})


@dataclass(frozen=True, kw_only=True)
class Clause:
    """A WHEN clause; `values` None is `*`, unless it deletes."""

    kind: str
    action: str
    condition: str | None = None
    values: Mapping[str, str] | None = None

    def sql(self) -> str:
        condition = "" if self.condition is None else f" AND {self.condition}"
        return f"WHEN {self.kind}{condition} THEN {self._action()}"

    def _action(self) -> str:
        if self.action == "delete":
            return "DELETE"
        if self.values is None:
            return "UPDATE SET *" if self.action == "update" else "INSERT *"
        if self.action == "update":
            return "UPDATE SET " + ", ".join(f"{k} = {v}" for k, v in self.values.items())
        return f"INSERT ({', '.join(self.values)}) VALUES ({', '.join(self.values.values())})"

    def add(self, merge: Any) -> Any:
        method = f"when_{self.kind.lower().replace(' ', '_')}_{self.action}"
        if self.action == "delete":
            return getattr(merge, method)(self.condition)
        if self.values is None:
            return getattr(merge, f"{method}_all")(self.condition)
        return getattr(merge, method)(self.values, self.condition)


def update(values: Mapping[str, str] | None = None, condition: str | None = None) -> Clause:
    return Clause(kind="MATCHED", action="update", values=values, condition=condition)


def delete(condition: str | None = None) -> Clause:
    return Clause(kind="MATCHED", action="delete", condition=condition)


def insert(values: Mapping[str, str] | None = None, condition: str | None = None) -> Clause:
    return Clause(kind="NOT MATCHED", action="insert", values=values, condition=condition)


def alone(values: Mapping[str, str] | None, condition: str | None = None) -> Clause:
    action = "delete" if values is None else "update"
    return Clause(kind="NOT MATCHED BY SOURCE", action=action, values=values, condition=condition)


@dataclass(frozen=True, kw_only=True)
class Merge:
    """A source and what is done with it."""

    source: pa.Table
    clauses: tuple[Clause, ...]
    on: str = "target.id = source.id"
    evolving: bool = False

    def ours(self, path: Path) -> Any:
        merge: Any = bayou.table(str(path)).merge(self.source, self.on, merge_schema=self.evolving)
        for clause in self.clauses:
            merge = clause.add(merge)
        return merge.execute()

    def theirs(self, delta_spark: DeltaSpark, path: Path) -> None:
        source = path.parent / f"{path.name}-source.parquet"
        pq.write_table(self.source, source)
        evolution = "WITH SCHEMA EVOLUTION " if self.evolving else ""
        delta_spark.sql(
            f"MERGE {evolution}INTO delta.`{path}` AS target USING parquet.`{source}` AS source "
            f"ON {self.on} {' '.join(clause.sql() for clause in self.clauses)}"
        )


def rows(first: int, end: int) -> pa.Table:
    ids = list(range(first, end))
    structs = [None if i % 4 == 0 else {"x": i, "y": str(i)} for i in ids]
    return pa.table(
        {
            "id": pa.array([None if i == 3 else i for i in ids], pa.int64()),
            "p": [("a", "b c", None)[i % 3] for i in ids],
            "s": pa.array(structs, STRUCT),
            "n": pa.array([i * 10 for i in ids], pa.int32()),
        }
    )


def new_rows(ids: list[int | None], structs: pa.DataType = STRUCT, **more: Any) -> pa.Table:
    names = [f.name for f in structs]
    values = [None if i is None or i % 3 == 0 else dict.fromkeys(names, i) for i in ids]
    texts = [{k: str(v) if k in "yY" else v for k, v in s.items()} if s else None for s in values]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": [("b c", None, "z")[(i or 0) % 3] for i in ids],
            "s": pa.array(texts, structs),
            "n": pa.array([None if i is None else i * 1000 for i in ids], pa.int64()),
            **more,
        }
    )


def read(delta_spark: DeltaSpark, path: Path) -> list[Any]:
    return sorted(delta_spark.read(path).to_pylist(), key=repr)


def changes(delta_spark: DeltaSpark, path: Path, version: int) -> list[Any]:
    feed = {
        "readChangeFeed": "true",
        "startingVersion": str(version),
        "endingVersion": str(version),
    }
    rows = delta_spark.read(path, columns=["* EXCEPT (_commit_timestamp)"], options=feed)
    return sorted(rows.to_pylist(), key=repr)


def two(path: Path) -> tuple[Path, Path]:
    """The table twice."""
    other = path.parent / f"{path.name}-theirs"
    shutil.copytree(path, other)
    return path, other


def check_same(delta_spark: DeltaSpark, ours: Path, theirs: Path, merge: Merge) -> None:
    metrics = merge.ours(ours)
    merge.theirs(delta_spark, theirs)
    expected = read(delta_spark, theirs)
    assert read(delta_spark, ours) == expected
    assert sorted(bayou.table(str(ours)).to_arrow().to_pylist(), key=repr) == expected
    snapshot = bayou.table(str(theirs)).snapshot()
    assert bayou.table(str(ours)).snapshot().arrow_schema == snapshot.arrow_schema
    assert metrics.version == snapshot.version
    if snapshot.properties.get("delta.enableChangeDataFeed") == "true":
        found = changes(delta_spark, ours, metrics.version)
        assert found == changes(delta_spark, theirs, metrics.version)
    if not {"delta.enableDeletionVectors", "delta.columnMapping.mode"} & set(snapshot.properties):
        read_back = deltalake.DeltaTable(str(ours)).to_pyarrow_table().select(snapshot.schema.names)
        assert sorted(read_back.to_pylist(), key=repr) == expected
    check_history(ours, theirs, equal_keys="=" in merge.on)


ROW_COUNTS = (
    "numSourceRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsMatchedUpdated",
    "numTargetRowsNotMatchedBySourceUpdated",
    "numTargetRowsDeleted",
    "numTargetRowsMatchedDeleted",
    "numTargetRowsNotMatchedBySourceDeleted",
)


def check_history(ours: Path, theirs: Path, *, equal_keys: bool) -> None:
    """The same names, and the same rows; files may be fewer of ours."""
    (one,), (other,) = bayou.table(str(ours)).history(1), bayou.table(str(theirs)).history(1)
    assert one["operation"] == other["operation"]
    if one["operation"] != "MERGE":
        return
    assert set(one["operationParameters"]) == set(other["operationParameters"])
    assert set(one["operationMetrics"]) == set(other["operationMetrics"])
    for name in ROW_COUNTS:
        # A join without equal keys reads the source several times, and counts it so.
        if name == "numSourceRows" and not equal_keys:
            continue
        assert (name, one["operationMetrics"][name]) == (name, other["operationMetrics"][name])


UPSERT = (delete("source.id % 5 = 0"), update(), insert(condition="source.id <> 31"))

MERGES: dict[str, Merge] = {
    "upsert": Merge(source=new_rows([1, 5, 7, 30, 31, None]), clauses=UPSERT),
    "some-columns": Merge(
        source=new_rows([1, 5, 7, 30, None]),
        clauses=(
            update({"n": "target.n + source.n", "s.x": "source.id", "p": "'new'"}, "source.id > 1"),
            insert({"id": "source.id", "s": "source.s"}),
        ),
    ),
    "inserts-only": Merge(
        source=new_rows([1, 1, 30, 30, None]),
        clauses=(insert({"id": "id", "n": "source.n"}, "source.n > 5"), insert()),
    ),
    "not-matched-by-source": Merge(
        source=new_rows([1, 5, 7, 30]),
        clauses=(
            update({"p": "source.p"}),
            alone({"n": "target.n - 1", "s.y": "'alone'"}, "target.id < 9"),
            alone(None, "p = 'a'"),
        ),
    ),
    # With inserts and the feed delta-spark loses rows that have a number in common.
    "deletes-with-duplicates": Merge(source=new_rows([1, 1, 5, 5, 30, None]), clauses=(delete(),)),
    "deletes-with-duplicates-and-inserts": Merge(
        source=new_rows([1, 1, 5, 5, 30, None]), clauses=(delete(), insert())
    ),
    "null-safe": Merge(
        source=new_rows([1, None]),
        on="target.id <=> source.id",
        clauses=(update({"n": "source.n", "p": "'null'"}), insert()),
    ),
    "inequality": Merge(
        source=new_rows([3, 12]),
        on="target.n > source.n - 2945 AND target.n < source.n - 2935 AND target.p = 'a'",
        clauses=(update({"n": "source.n"}), insert()),
    ),
    "partition-in-key": Merge(
        source=new_rows([2, 5, 8, 11]),
        on="target.id = source.id AND target.p <=> source.p",
        clauses=(update(), insert()),
    ),
    "evolving": Merge(
        source=new_rows([1, 5, 6, 30, 33], WIDE, more=["m"] * 5),
        clauses=(update(), insert()),
        evolving=True,
    ),
    "evolving-with-less": Merge(
        source=new_rows([1, 4, 5, 6, 30], NARROW, more=[1, 2, 3, 4, 5]).drop(["p"]),
        clauses=(update(), insert()),
        evolving=True,
    ),
    "evolving-by-name": Merge(
        source=new_rows([1, 4, 5, 30], NARROW, more=[1, 2, 3, 4], other=[1, 2, 3, 4]),
        clauses=(update({"s": "source.s", "more": "source.more"}), insert({"id": "source.id"})),
        evolving=True,
    ),
    "nothing-matches": Merge(source=new_rows([100]), clauses=(update(),)),
    "no-source": Merge(source=new_rows([]), clauses=(update(), insert())),
    "all-go": Merge(source=new_rows([1]), on="true", clauses=(delete(),)),
}
TABLES: dict[str, dict[str, str]] = {
    "plain": {},
    "vectors": VECTORS,
    "feed": FEED,
    "vectors-feed": VECTORS | FEED,
    "tracked-feed-mapped": TRACKED | FEED | MAPPED,
    "vectors-tracked": VECTORS | TRACKED,
}


@pytest.mark.parametrize("partitions", [[], ["p"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize(
    ("properties", "name"),
    [
        pytest.param(TABLES[table], name, id=f"{table}-{name}")
        for i, (table, name) in enumerate(itertools.product(TABLES, MERGES))
        if name == "upsert" or i % 4 == 0
    ],
)
def test_the_same_rows_changes_and_history(
    delta_spark: DeltaSpark,
    tmp_path: Path,
    properties: dict[str, str],
    name: str,
    partitions: list[str],
) -> None:
    path = tmp_path / "t"
    bayou.write(str(path), rows(0, 12), partition_by=partitions, configuration=properties)
    bayou.write(str(path), rows(12, 20))
    check_same(delta_spark, *two(path), MERGES[name])


def test_rows_keep_their_ids(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    bayou.write(str(path), rows(0, 12), configuration=TRACKED | VECTORS)
    bayou.write(str(path), rows(12, 20))
    ours, theirs = two(path)
    merge = Merge(source=new_rows([1, 5, 13]), clauses=(update({"n": "source.n"}),))
    merge.ours(ours)
    merge.theirs(delta_spark, theirs)
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    found = [
        sorted(bayou.table(str(t)).to_arrow(columns).to_pylist(), key=repr) for t in (ours, theirs)
    ]
    assert found[0] == found[1]


MADE = """
CREATE TABLE delta.`{path}` (
  id BIGINT,
  number BIGINT GENERATED {how} AS IDENTITY (START WITH 5 INCREMENT BY 5),
  n INT,
  twice INT GENERATED ALWAYS AS (n * 2),
  d STRING,
  v VARCHAR(3)
) USING delta TBLPROPERTIES ({properties})
"""


def made(delta_spark: DeltaSpark, path: Path, how: str, **properties: str) -> None:
    given = {"delta.feature.allowColumnDefaults": "supported", **properties}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    delta_spark.sql(MADE.format(path=path, how=how, properties=shown))
    delta_spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN d SET DEFAULT 'none'")
    delta_spark.sql(
        f"INSERT INTO delta.`{path}` (id, n, d, v) VALUES (1, 1, 'x', 'a'), (2, 2, 'y', 'b')"
    )


@pytest.mark.parametrize("how", ["ALWAYS", "BY DEFAULT"])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_columns_that_the_table_makes(
    delta_spark: DeltaSpark, tmp_path: Path, how: str, vectors: str
) -> None:
    path = tmp_path / "t"
    made(
        delta_spark,
        path,
        how,
        **{
            "delta.enableDeletionVectors": vectors,
            "delta.enableChangeDataFeed": "true",
        },
    )
    source = pa.table({"id": [2, 3], "n": [20, 30], "v": ["B", "C"]})
    by_name = {"id": "source.id", "n": "source.n", "v": "source.v"}
    ours, theirs = two(path)
    merge = Merge(source=source, clauses=(update({"n": "source.n"}), insert(by_name)))
    check_same(delta_spark, ours, theirs, merge)
    fields = [
        bayou.table(str(t)).snapshot().schema.select(["number"]).fields[0] for t in (ours, theirs)
    ]
    assert fields[0] == fields[1]
    if how == "BY DEFAULT":
        explicit = {**by_name, "number": "source.n"}
        again = Merge(
            source=pa.table({"id": [9], "n": [90], "v": ["x"]}), clauses=(insert(explicit),)
        )
        check_same(delta_spark, ours, theirs, again)


def plain(delta_spark: DeltaSpark, path: Path) -> None:
    bayou.write(str(path), rows(0, 12))


def checked(delta_spark: DeltaSpark, path: Path) -> None:
    bayou.write(str(path), rows(0, 12))
    delta_spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT low CHECK (n < 500 OR n IS NULL)")


def with_identity(delta_spark: DeltaSpark, path: Path) -> None:
    made(delta_spark, path, "ALWAYS")


SOURCE = new_rows([1, 5, 30])
NAMED = pa.table({"id": [1, 9], "n": [10, 90], "v": ["abcd", "b"]})
REFUSED: dict[str, tuple[Callable[..., None], Merge, str]] = {
    "several": (
        plain,
        Merge(source=new_rows([1, 1]), clauses=(update(),)),
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    ),
    "several-by-condition": (
        plain,
        Merge(source=new_rows([1, 1]), clauses=(delete("source.n < 0"), insert())),
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    ),
    "several-without-matched": (
        plain,
        Merge(source=new_rows([1, 1]), clauses=(insert(), alone(None))),
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    ),
    "unknown-in-on": (
        plain,
        Merge(source=SOURCE, on="target.idd = source.id", clauses=(update(),)),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "unknown-value": (
        plain,
        Merge(source=SOURCE, clauses=(update({"n": "source.nn"}),)),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "unknown-column": (
        plain,
        Merge(source=SOURCE, clauses=(update({"nn": "source.n"}),)),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "target-in-insert": (
        plain,
        Merge(source=SOURCE, clauses=(insert({"id": "target.n"}),)),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "all-of-less": (
        plain,
        Merge(source=SOURCE.drop(["p"]), clauses=(update(),)),
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
    ),
    "ambiguous": (plain, Merge(source=SOURCE, on="id = 3", clauses=(update(),)), "AMBIGUOUS"),
    "set-twice": (
        plain,
        Merge(source=SOURCE, clauses=(update({"n": "1", "N": "2"}),)),
        "DELTA_CONFLICT_SET_COLUMN",
    ),
    "set-struct-and-field": (
        plain,
        Merge(source=SOURCE, clauses=(update({"s": "source.s", "s.x": "2"}),)),
        "DELTA_CONFLICT_SET_COLUMN",
    ),
    "struct-of-other-fields": (
        plain,
        Merge(source=new_rows([1], NARROW), clauses=(update({"s": "source.s"}),)),
        "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
    ),
    "overflow": (
        plain,
        Merge(source=new_rows([1], n=[1 << 40]), clauses=(update(),)),
        "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
    ),
    "not-a-number": (
        plain,
        Merge(source=SOURCE, clauses=(update({"n": "concat(source.p, 'x')"}),)),
        "CAST_INVALID_INPUT",
    ),
    "check": (checked, Merge(source=SOURCE, clauses=(update(),)), "low"),
    "too-long": (
        with_identity,
        Merge(source=NAMED, clauses=(update({"v": "source.v"}),)),
        "3",
    ),
    "identity-updated": (
        with_identity,
        Merge(source=NAMED, clauses=(update({"number": "source.n"}),)),
        "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
    ),
    "identity-inserted": (
        with_identity,
        Merge(source=NAMED, clauses=(insert({"id": "source.id", "number": "source.n"}),)),
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
    ),
    "generated-wrong": (
        with_identity,
        Merge(source=NAMED, clauses=(update({"twice": "source.n", "n": "source.n"}),)),
        "twice",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_delta_spark_refuses_is_refused_under_the_same_name(
    delta_spark: DeltaSpark, tmp_path: Path, name: str
) -> None:
    make, merge, condition = REFUSED[name]
    path = tmp_path / "t"
    make(delta_spark, path)
    ours, theirs = two(path)
    with pytest.raises(AssertionError) as their_error:
        merge.theirs(delta_spark, theirs)
    assert condition in str(their_error.value)
    with pytest.raises(BayouError) as our_error:
        merge.ours(ours)
    assert condition in str(our_error.value)
    version = bayou.table(str(theirs)).snapshot().version
    assert bayou.table(str(ours)).snapshot().version == version
    assert read(delta_spark, ours) == read(delta_spark, theirs)
