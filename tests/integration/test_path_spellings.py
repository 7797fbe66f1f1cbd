"""Tables of delta-spark that `deltalake` overwrites: it spells the paths that it removes anew.

delta-spark leaves letters beyond ASCII in a path as they are and escapes what RFC 2396 forbids;
`deltalake` escapes those letters, and `*`.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bayou
from bayou.protocol.file_names import escape_partition_value
from support.examples import examples
from support.log_writer import add, metadata, protocol

TEXT = st.text(
    st.one_of(
        st.sampled_from("aZ09 _-.~!*'(),;$&+@<>|`\"éüß日😀\u00a0\u2028"),
        st.characters(codec="utf-8", exclude_characters="/\x00", exclude_categories=["Cn", "Co"]),
    ),
    min_size=1,
    max_size=8,
)


def hadoop_uri(path: str) -> str:
    """`new Path(path).toUri().toString()` of Hadoop."""

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if ord(character) >= 0xA0 and not re.fullmatch(r"\s", character):
            return character
        return "".join(f"%{octet:02X}" for octet in character.encode())

    return re.sub(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/]", escape, path)


def write_like_delta_spark(root: Path, values: list[str]) -> None:
    """A row and a file for each value of the partition column `p`."""
    actions = [protocol(), metadata({"p": "string", "n": "long"}, ["p"])]
    for number, value in enumerate(values):
        path = f"p={escape_partition_value(value)}/part-{number}.c000.snappy.parquet"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [number]}), root / path)
        size = (root / path).stat().st_size
        actions.append(add(hadoop_uri(path), size=size, partition_values={"p": value}))
    log = root / "_delta_log"
    log.mkdir(parents=True)
    lines = [json.dumps(action, ensure_ascii=False) for action in actions]
    (log / f"{0:020d}.json").write_text("\n".join(lines), encoding="utf-8")


def overwrite(root: Path) -> None:
    rows = pa.table({"p": ["new"], "n": [-1]})
    deltalake.write_deltalake(str(root), rows, mode="overwrite", partition_by=["p"])


@pytest.mark.parametrize("checkpoint", [False, True])
def test_rows_that_deltalake_overwrote_are_gone(tmp_path: Path, checkpoint: bool) -> None:
    values = ["ä", "日本", "a b", "d*e", "x:y", "50%", "plain"]
    write_like_delta_spark(tmp_path, values)
    table = bayou.table(str(tmp_path))
    assert sorted(table.to_arrow()["p"].to_pylist()) == sorted(values)
    if checkpoint:
        table.create_checkpoint()
    overwrite(tmp_path)
    assert table.to_arrow().to_pylist() == [{"p": "new", "n": -1}]
    table.create_checkpoint()
    assert bayou.table(str(tmp_path)).to_arrow().to_pylist() == [{"p": "new", "n": -1}]


def test_rows_that_deltalake_deleted_are_in_the_change_feed_as_what_they_were(
    tmp_path: Path,
) -> None:
    write_like_delta_spark(tmp_path, ["ä", "plain"])
    deltalake.DeltaTable(str(tmp_path)).alter.set_table_properties(
        {"delta.enableChangeDataFeed": "true"}
    )
    deltalake.DeltaTable(str(tmp_path)).delete("p = 'ä'")
    table = bayou.table(str(tmp_path))
    assert table.to_arrow()["p"].to_pylist() == ["plain"]
    changes = table.changes(2).to_arrow().to_pylist()
    assert [(c["p"], c["n"], c["_change_type"]) for c in changes] == [("ä", 0, "delete")]


@settings(max_examples=examples(25))
@given(
    values=st.lists(TEXT, min_size=1, max_size=6, unique=True),
    checkpoint=st.booleans(),
    kept=st.integers(0, 5),
)
@example(values=["ä*", "e\u0301", "\u00e9", "😀"], checkpoint=True, kept=1)
def test_what_deltalake_removes_is_removed_whatever_the_partitions_are_called(
    values: list[str], checkpoint: bool, kept: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        write_like_delta_spark(root, values)
        table = bayou.table(str(root))
        if checkpoint:
            table.create_checkpoint()
        deltalake.DeltaTable(str(root)).delete(f"n <> {kept}")
        expected = dict(list(enumerate(values))[kept : kept + 1])
        assert {row["n"]: row["p"] for row in table.to_arrow().to_pylist()} == expected
