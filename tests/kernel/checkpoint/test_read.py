"""PROTOCOL.md, V2 Spec, Sidecar File Information; docs/design/facts.md, Checkpoints."""

from __future__ import annotations

import io
import json

import pyarrow.parquet as pq
import pytest

from bayou.errors import CorruptTableError
from bayou.kernel import ByteRange, LogSlice, Scan, Snapshot
from bayou.kernel.checkpoint.write import checkpoint
from support.log_writer import LogWriter, add, metadata, protocol, remove, txn

V2 = (["v2Checkpoint"], ["v2Checkpoint"])
HEAD = (protocol(3, 7, V2), metadata({"id": "long"}))
DOMAIN = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
CONTENTS = (*HEAD, txn("app", 3), DOMAIN, *(add(n) for n in "abcd"), remove("gone"))
KINDS = ("json", "parquet", "classic")


def snapshot(log: LogWriter, version: int | None = None) -> Snapshot:
    return Snapshot.load(log.engine, log.table, version)


def paths(log: LogWriter, version: int | None = None) -> list[str]:
    scan = snapshot(log, version).scan_builder().build()
    return sorted(f.path for b in scan.scan_files(log.engine) for f in b.rows())


def read(log: LogWriter, name: str) -> bytes:
    return bytes(next(iter(log.engine.files.read_files([ByteRange(path=log.path(name))]))))


def write(log: LogWriter, **options: object) -> list[str]:
    """Versions 0 and 1, of which only the checkpoint of 1 is left, and version 2."""
    names = log.v2_checkpoint(1, CONTENTS, **options)
    log.commit(remove("b"), add("e"), version=2)
    return names


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sidecars", [0, 1, 3])
def test_a_v2_checkpoint_is_read_whatever_its_name_and_with_any_number_of_sidecars(
    log, kind, sidecars
):
    write(log, kind=kind, sidecars=sidecars)
    found = snapshot(log)
    assert found.protocol.reader_features == ["v2Checkpoint"]
    assert found.transactions == {"app": 3}
    assert found.domain_metadata == {"d": "{}"}
    assert paths(log) == ["a", "c", "d", "e"]
    assert paths(log, 1) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inline", [1, 4])
def test_file_actions_beside_the_sidecars_count_too(log, kind, inline):
    write(log, kind=kind, sidecars=2, inline=inline)
    assert paths(log) == ["a", "c", "d", "e"]
    assert paths(log, 1) == ["a", "b", "c", "d"]
    scan = snapshot(log).scan_builder().build()
    parts = scan.slices(log.engine, 4)
    found = [f.path for p in parts for b in scan.replay_slice(log.engine, p) for f in b.rows()]
    assert sorted(found) == ["a", "c", "d", "e"]
    checkpoint(log.engine, log.table)
    assert snapshot(log).log_segment.checkpoint.version == 2
    assert paths(log) == ["a", "c", "d", "e"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sidecars", [0, 3])
def test_slices_over_sidecars_serialize_and_need_nothing_of_each_other(log, kind, sidecars):
    write(log, kind=kind, sidecars=sidecars)
    scan = snapshot(log).scan_builder().build()
    parts = [LogSlice.from_bytes(part.to_bytes()) for part in scan.slices(log.engine, 4)]
    worker = Scan.from_bytes(scan.to_bytes())
    found = [
        file.path
        for part in reversed(parts)
        for batch in worker.replay_slice(log.engine, part)
        for file in batch.rows()
    ]
    assert sorted(found) == ["a", "c", "d", "e"]
    assert len([p for p in parts if p.split is not None]) == max(sidecars, kind != "json")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sidecars", [0, 2])
def test_a_checkpoint_is_built_on_a_v2_checkpoint(log, kind, sidecars):
    write(log, kind=kind, sidecars=sidecars)
    expected = paths(log)
    checkpoint(log.engine, log.table)
    assert snapshot(log).log_segment.checkpoint.version == 2
    assert paths(log) == expected


def test_the_size_of_a_checkpoint_is_that_of_what_is_replayed(log):
    names = write(log, kind="json", sidecars=2)
    sizes = {f.path: f.size for f in log.engine.files.list_from(log.path("_sidecars/0"))}
    expected = sum(sizes[log.path(name)] for name in names[1:])
    assert snapshot(log).checkpoint_bytes == expected
    assert snapshot(log).scan_builder().build().checkpoint_bytes == expected


@pytest.mark.parametrize(
    "written",
    ["{}", "_sidecars/{}", "s3://elsewhere/old/_delta_log/_sidecars/{}", "/old/_sidecars/{}"],
)
def test_a_sidecar_stands_in_the_tables_own_folder_however_its_path_is_written(log, written):
    top, sidecar = write(log, kind="json", sidecars=1)
    name = sidecar.split("/")[1]
    data = read(log, top)
    log.put(top, data.replace(name.encode(), written.format(name).encode()))
    assert paths(log) == ["a", "c", "d", "e"]


def test_the_path_of_a_sidecar_is_percent_encoded(log):
    top, sidecar = write(log, kind="json", sidecars=1)
    name = sidecar.split("/")[1]
    data = read(log, sidecar)
    log.put("_sidecars/a b.parquet", data)
    lines = read(log, top)
    log.put(top, lines.replace(name.encode(), b"a%20b.parquet"))
    assert paths(log) == ["a", "c", "d", "e"]


def test_a_missing_sidecar_without_the_commits_is_an_error_that_names_it(log):
    names = write(log, sidecars=2)
    log.delete(names[2])
    with pytest.raises(CorruptTableError, match="is missing") as caught:
        paths(log)
    assert caught.value.file == log.path(names[2])


def test_a_json_checkpoint_that_was_cut_between_its_lines_is_told_by_its_tag(log):
    (top, *_) = log.v2_checkpoint(1, CONTENTS, kind="json", sidecars=2)
    lines = read(log, top).splitlines()
    first = json.loads(lines[0])
    sizes = [json.loads(line)["sidecar"]["sizeInBytes"] for line in lines[1:3]]
    first["checkpointMetadata"]["tags"]["sidecarSizeInBytes"] = str(sum(sizes))
    whole = [json.dumps(first).encode(), *lines[1:]]
    log.put(top, b"\n".join(whole))
    assert paths(log) == ["a", "b", "c", "d"]
    log.put(top, b"\n".join([whole[0], whole[1], *whole[3:]]))
    with pytest.raises(CorruptTableError, match="is incomplete") as caught:
        paths(log)
    assert caught.value.file == log.path(top)


def write_whole_log(log: LogWriter) -> None:
    log.commit(*HEAD, add("a"), add("b"))
    log.commit(remove("a"), add("c"))
    log.commit(add("d"))


DAMAGE = (b"nonsense", b'{"add"', b"PAR1PAR1")


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["json", "parquet", "classic"])
def test_a_damaged_checkpoint_with_a_whole_log_behind_it_is_survived(log, kind, damage):
    write_whole_log(log)
    (top, *_) = log.v2_checkpoint(1, [*HEAD, add("b"), add("c")], kind=kind)
    log.put(top, damage)
    assert paths(log) == ["b", "c", "d"]


@pytest.mark.parametrize("damage", [None, *DAMAGE])
@pytest.mark.parametrize("kind", ["json", "parquet", "classic"])
def test_a_sidecar_that_cannot_be_read_is_survived_with_a_whole_log_behind_it(log, kind, damage):
    write_whole_log(log)
    names = log.v2_checkpoint(1, [*HEAD, add("b"), add("c")], kind=kind, sidecars=1)
    if damage is None:
        log.delete(names[1])
    else:
        log.put(names[1], damage)
    assert paths(log) == ["b", "c", "d"]


def test_damaged_pages_of_a_checkpoint_are_survived_with_a_whole_log_behind_it(log):
    many = [add(f"{n:05d}") for n in range(2000)]
    log.commit(*HEAD, *many)
    log.commit(remove("00000"), add("x"))
    (name,) = log.checkpoint(0, [*HEAD, *many])
    data = read(log, name)
    paths_at = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    columns = [paths_at.column(i) for i in range(paths_at.num_columns)]
    column = next(c for c in columns if c.path_in_schema == "add.path")
    start = column.dictionary_page_offset or column.data_page_offset
    end = start + column.total_compressed_size
    log.put(name, data[:start] + b"\xff" * (end - start) + data[end:])
    assert paths(log) == [*(f"{n:05d}" for n in range(1, 2000)), "x"]
    log.delete(f"{0:020d}.json")
    with pytest.raises(CorruptTableError) as caught:
        paths(log)
    assert caught.value.file == log.path(name)


def test_a_sidecar_missing_behind_files_that_were_given_is_an_error_that_names_it(log):
    write_whole_log(log)
    names = log.v2_checkpoint(1, [*HEAD, add("b"), add("c")], kind="json", sidecars=2)
    log.delete(names[2])
    with pytest.raises(CorruptTableError) as caught:
        paths(log)
    assert caught.value.file == log.path(names[2])


def test_a_damaged_checkpoint_with_an_older_one_and_commits_behind_it_is_survived(log):
    write_whole_log(log)
    log.checkpoint(0, [*HEAD, add("a"), add("b")])
    (name,) = log.checkpoint(1, [*HEAD, add("b"), add("c")])
    log.put(name, b"nonsense")
    log.delete(f"{0:020d}.json")
    assert paths(log) == ["b", "c", "d"]


def test_several_damaged_checkpoints_are_survived(log):
    write_whole_log(log)
    for version in range(3):
        (name,) = log.checkpoint(version, HEAD)
        log.put(name, b"nonsense")
    assert paths(log) == ["b", "c", "d"]


def test_a_damaged_checkpoint_without_the_commits_is_an_error_that_names_it(log):
    write_whole_log(log)
    (name,) = log.checkpoint(1, HEAD)
    log.put(name, b"nonsense")
    log.delete(f"{0:020d}.json")
    with pytest.raises(CorruptTableError) as caught:
        paths(log)
    assert caught.value.file == log.path(name)


def test_a_damaged_checkpoint_that_a_checksum_hides_is_survived_by_the_scan(log):
    write_whole_log(log)
    (name,) = log.checkpoint(1, [*HEAD, add("b"), add("c")])
    log.checksum(
        2,
        protocol=HEAD[0]["protocol"] | {"readerFeatures": [], "writerFeatures": []},
        metadata=HEAD[1]["metaData"],
        setTransactions=[],
        domainMetadata=[],
    )
    log.put(name, b"nonsense")
    assert snapshot(log).checkpoint_contents is None
    assert paths(log) == ["b", "c", "d"]
    scan = snapshot(log).scan_builder().build()
    worker = Scan.from_bytes(scan.to_bytes())
    parts = [LogSlice.from_bytes(part.to_bytes()) for part in scan.slices(log.engine)]
    found = [f.path for p in parts for b in worker.replay_slice(log.engine, p) for f in b.rows()]
    assert sorted(found) == ["b", "c", "d"]
    log.delete(f"{0:020d}.json")
    with pytest.raises(CorruptTableError) as caught:
        paths(log)
    assert caught.value.file == log.path(name)


@pytest.mark.parametrize("path", ["../../other/x.parquet", "..%2Fx.parquet", "_sidecars/.."])
def test_a_sidecar_that_leaves_the_tables_folder_is_an_error(log, path):
    names = write(log, kind="json", sidecars=1)
    top = next(name for name in names if name.endswith(".json"))
    lines = [json.loads(line) for line in read(log, top).splitlines()]
    for line in lines:
        if "sidecar" in line:
            line["sidecar"]["path"] = path
    log.engine.files.put(log.path(top), "\n".join(map(json.dumps, lines)).encode())
    with pytest.raises(CorruptTableError, match="outside the table's directory"):
        paths(log)
