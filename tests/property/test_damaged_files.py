"""Files with bytes cut, changed, doubled and moved: an answer or one of our errors, nothing else.

Delta's logs carry no checksums, so that a changed digit of a size is as good as the right one: what
can be asked is that nothing else than a table or a `BayouError` comes out, in bounded time.
BAYOU_TEST_FAULTS is the number of rounds for each kind of file.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import BayouError
from support.examples import examples
from support.log_writer import LogWriter, add, metadata, protocol
from support.vectors import write_vectors

ROUNDS = int(os.environ.get("BAYOU_TEST_FAULTS", "0")) or examples(200)
KINDS = {
    "commit": "_delta_log/*[0-9].json",
    "checkpoint": "_delta_log/*.checkpoint.parquet",
    "checksum": "_delta_log/*.crc",
    "last checkpoint": "_delta_log/_last_checkpoint",
    "data file": "p=*/*.parquet",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve commits, a checkpoint at version 10, five columns, three partitions."""
    path = tmp_path_factory.mktemp("damaged") / "table"
    for n in range(12):
        rows = range(n * 10, n * 10 + 10)
        data = pa.table(
            {
                "id": pa.array(rows, pa.int64()),
                "p": pa.array([f"part {row % 3}" for row in rows]),
                "name": pa.array([None if row % 7 == 0 else f"name {row}" for row in rows]),
                "at": pa.array([dt.datetime(2024, 1, 1, row % 24) for row in rows]),
                "tags": pa.array([[f"t{row}", None] for row in rows], pa.list_(pa.string())),
            }
        )
        bayou.write(str(path), data, partition_by=None if n else ["p"])
    return path


def _read(path: Path) -> None:
    table = bayou.table(str(path))
    assert table.to_arrow(filter="id >= 5 AND p = 'part 1'").num_rows <= 10_000
    assert table.snapshot().files().num_rows <= 10_000
    assert table.history(limit=3)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(min(rng.randrange(1, 40), len(data) - start)) + data[start:]


def _move(data: bytes, rng: random.Random) -> bytes:
    a, b, c = sorted(rng.randrange(len(data)) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _double(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    return data[:b] + data[a:b] + data[b:]


def _remove(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    return data[:a] + data[b:]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut,
    _flip,
    _flip,
    _overwrite,
    _move,
    _double,
    _remove,
)


@pytest.mark.timeout(60 + ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_gives_an_answer_or_one_of_our_errors(kind: str, table: Path) -> None:
    files = sorted(table.glob(KINDS[kind]))
    assert files
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    refused = 0
    for number in range(ROUNDS):
        file = rng.choice(files)
        damage = rng.choice(DAMAGES)
        intact = file.read_bytes()
        damaged = damage(intact, rng)
        if file.suffix == ".parquet" and number % 2:  # a footer that is found, and damaged
            footer = len(intact) - 8 - int.from_bytes(intact[-8:-4], "little")
            body = damage(intact[footer:-8], rng)
            damaged = intact[:footer] + body + len(body).to_bytes(4, "little") + intact[-4:]
        file.write_bytes(damaged)
        try:
            _read(table)
        except BayouError:
            refused += 1
        except Exception as error:
            error.add_note(f"{kind} {file.name}, {damage.__name__}, seed {seed}, round {number}")
            (table.parent / "damaged").write_bytes(damaged)
            raise
        finally:
            file.write_bytes(intact)
    _read(table)
    if kind in ("commit", "data file"):
        assert refused > ROUNDS // 40


@pytest.mark.timeout(60 + ROUNDS)
def test_a_damaged_deletion_vector_gives_the_right_rows_or_one_of_our_errors(
    tmp_path: Path,
) -> None:
    rows = 70_000
    deleted = [*range(100, 9_000), *range(20_000, 60_000, 2), *range(65_000, rows, 500)]
    log = LogWriter(ArrowEngine(), str(tmp_path / "table"))
    pq.write_table(pa.table({"id": range(rows)}), f"{log.table}/f")
    _, vector = write_vectors(log.engine, log.table, [1, 2, 3], deleted)
    features = (["deletionVectors"], ["deletionVectors"])
    log.commit(
        protocol(3, 7, features),
        metadata({"id": "long"}),
        add("f", vector=vector, stats={"numRecords": rows}),
    )
    (file,) = (tmp_path / "table").glob("*.bin")
    intact = file.read_bytes()
    table = bayou.table(log.table)
    right = table.to_arrow()
    assert right.num_rows == rows - len(deleted)
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    refused = 0
    for number in range(ROUNDS):
        damage = rng.choice(DAMAGES)
        file.write_bytes(damage(intact, rng))
        try:
            assert table.to_arrow().equals(right)
        except BayouError:
            refused += 1
        except Exception as error:
            error.add_note(f"{damage.__name__}, seed {seed}, round {number}")
            raise
    assert refused > ROUNDS // 2
