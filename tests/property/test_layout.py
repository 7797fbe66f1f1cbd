"""However a table's files are rearranged, its rows stay what they are, row ids included."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayou
from support.examples import examples

NUMBERS = st.one_of(st.none(), st.integers(-20, 20))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": NUMBERS,
            "p": st.sampled_from(["a", "b/c", "50%", "", None]),
            "s": st.fixed_dictionaries({"f": st.one_of(st.none(), st.floats(width=32))}),
            "t": st.one_of(st.none(), st.text("aü\U0001f600", max_size=3)),
        }
    ),
    min_size=1,
    max_size=12,
)
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("p", pa.string()),
        ("s", pa.struct([("f", pa.float64())])),
        ("t", pa.string()),
    ]
)
STEPS = st.lists(
    st.sampled_from(["optimize", "optimize p", "zorder", "purge", "delete", "append"]),
    min_size=1,
    max_size=5,
)


def rows(path: str, *, ids: bool) -> list[str]:
    columns = ["n", "p", "s", "t"]
    if ids:
        columns += ["_metadata.row_id", "_metadata.row_commit_version"]
    return sorted(map(repr, bayou.table(path).to_arrow(columns=columns).to_pylist()))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(
    files=st.lists(ROWS, min_size=1, max_size=4),
    steps=STEPS,
    partitioned=st.booleans(),
    mapping=st.sampled_from(["none", "name", "id"]),
    tracked=st.booleans(),
    vectors=st.booleans(),
    target=st.sampled_from([None, 1, 1_500]),
)
def test_rows_stay_what_they_are(files, steps, partitioned, mapping, tracked, vectors, target):
    properties = {
        "delta.columnMapping.mode": mapping,
        "delta.enableRowTracking": str(tracked).lower(),
        "delta.enableDeletionVectors": str(vectors).lower(),
    }
    options: dict[str, Any] = {"configuration": properties}
    if partitioned:
        options["partition_by"] = ["p"]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        for i, part in enumerate(files):
            table = pa.Table.from_pylist(part, SCHEMA)
            bayou.write(path, table, **(options if i == 0 else {}))
        table = bayou.table(path)
        for step in steps:
            if step == "delete":
                table.delete("n > 5")
                continue
            if step == "append":
                bayou.write(path, pa.Table.from_pylist(files[0], SCHEMA))
                continue
            before = rows(path, ids=tracked)
            if step == "zorder":
                table.optimize.z_order(["n", "s.f", "t"], target_size=target)
            elif step == "purge":
                table.optimize.purge()
                assert table.optimize.purge().version is None
            else:
                where = "p = 'a'" if partitioned and step == "optimize p" else None
                table.optimize(where, target, min_size=1 << 20)
            assert rows(path, ids=tracked) == before
            table.create_checkpoint()
