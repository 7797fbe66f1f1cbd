"""Logs with values that no writer should write: an answer or one of our errors, nothing else.

Where `test_damaged_files` changes bytes, this changes values: null, a value of another type, a
number out of range, deep nesting, and text that isn't what it should be, anywhere in a commit, a
checkpoint, a version checksum, `_last_checkpoint`, a schema, statistics or a partition value.
BAYOU_TEST_FAULTS is the number of mutations for each of them.
"""

from __future__ import annotations

import io
import json
import os
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.errors import BayouError, CorruptTableError
from bayou.kernel import ByteRange, Operation, Table, write_data
from bayou.kernel.checkpoint.write import checkpoint
from bayou.kernel.crc.write import write_checksum
from support.examples import examples
from support.log_writer import LogWriter, add, commit_info, metadata, protocol, remove, txn

FAULTS = int(os.environ.get("BAYOU_TEST_FAULTS", "0"))
ROUNDS = FAULTS or examples(1000)
SEED = random.randrange(1 << 32) if FAULTS else 20

COLUMNS: Mapping[str, Any] = {
    "id": "long",
    "n": "integer",
    "x": "double",
    "d": "decimal(10,2)",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "name": "string",
    "yes": "boolean",
    "s": {
        "type": "struct",
        "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}],
    },
    "l": {"type": "array", "elementType": "long", "containsNull": True},
    "m": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    "p": "string",
    "q": "date",
    "r": "integer",
    "t": "timestamp",
}
PARTITIONS = {"p": "a", "q": "2024-02-29", "r": "7", "t": "2024-02-29 12:00:00.5"}
STATS = {
    "numRecords": 3,
    "minValues": {
        "id": 1,
        "n": -3,
        "x": 0.5,
        "d": 1.25,
        "day": "2024-01-01",
        "at": "2024-01-01T00:00:00.000Z",
        "local": "2024-01-01T00:00:00.000",
        "name": "a",
        "s": {"a": 4},
    },
    "maxValues": {
        "id": 3,
        "n": 3,
        "x": 2.5,
        "d": 9.25,
        "day": "2024-03-01",
        "at": "2024-03-01T00:00:00.000Z",
        "local": "2024-03-01T00:00:00.000",
        "name": "z",
        "s": {"a": 9},
    },
    "nullCount": {"id": 0, "n": 0, "name": 1, "s": {"a": 1}},
    "tightBounds": True,
}
FILTERS = (
    None,
    "id > 2",
    "n = 3 AND p = 'a'",
    "d >= 2.5 OR x < 1",
    "day < DATE'2024-02-01'",
    "at >= TIMESTAMP'2024-02-01'",
    "local IS NULL",
    "s.a = 5",
    "name = 'b' AND q = DATE'2024-02-29'",
    "r = 7 AND t > TIMESTAMP'2024-01-01'",
)
DEEP: Any = object()
"""Stands for lists in lists, 3,000 deep."""

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    1 << 31,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    1 << 80,
    -(1 << 70),
    10**400,
    0.5,
    1e308,
    "",
    "x",
    "7",
    "9" * 30,
    "NaN",
    "2024-13-45",
    "99999-01-01",
    "0001-01-01T00:00:00-23:59",
    "9999-12-31T23:59:59+23:59",
    "%00",
    "%FF%FE",
    "../../etc",
    "\u0000",
    "\ud800",
    "\U0001f600" * 40,
    "struct",
    "decimal(99,7)",
    "(" * 3000,
    [],
    [None],
    [1],
    ["x"],
    [[]],
    {},
    {"x": None},
    {"x": [1]},
    {"type": "struct"},
    {"type": "array"},
    DEEP,
)


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    for key, inner in pairs:
        yield value, key
        yield from _slots(inner)


def _mutated(value: Any, rng: random.Random) -> Any:
    """A copy with some of its values replaced, moved, doubled, renamed or left out."""
    whole = [json.loads(json.dumps(value))]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        slots = list(_slots(whole))
        container, key = rng.choice(slots)
        match rng.randrange(8):
            case 0 if isinstance(container, dict):
                del container[key]
            case 1 if isinstance(container, dict):
                container[rng.choice(("x", "", "type", "path", key.upper()))] = container.pop(key)
            case 2 if isinstance(container, list) and container is not whole:
                container.append(container[key])
            case 3:
                other, at = rng.choice(slots)
                container[key] = _copied(other[at])
            case 4 if isinstance(container[key], str) and container[key]:
                text = container[key]
                start = rng.randrange(len(text))
                container[key] = text[:start] + rng.choice('"{}[]%/\0x9-.,: ') + text[start + 1 :]
            case _:
                container[key] = _copied(rng.choice(VALUES))
    return whole[0]


def _copied(value: Any) -> Any:
    if value is DEEP:
        return DEEP
    return json.loads(json.dumps(value, default=lambda _: "deep"))


def _text(value: Any) -> str:
    """The JSON text, with what `DEEP` stands for."""
    mark = uuid.uuid4().hex
    text = json.dumps(value, default=lambda _: mark)
    return text.replace(f'"{mark}"', "[" * 3000 + "]" * 3000)


class ForeignLog:
    """A table in memory with a commit, a checkpoint and a checksum, each of which can be replaced.

    Attributes:
        names: of the files at the beginning.
    """

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.engine = ArrowEngine(files=self.files)
        self.log = LogWriter(self.engine, f"memory://{uuid.uuid4().hex}/table")
        properties = {"delta.enableChangeDataFeed": "true"}
        self.head = [protocol(1, 4), metadata(COLUMNS, list(PARTITIONS), properties)]
        self.one = add("f", partition_values=PARTITIONS, size=self._write("f"), stats=STATS)
        self.two = add("g", partition_values=PARTITIONS, size=self._write("g"), stats=STATS)
        self.first = [commit_info(timestamp=1, operation="WRITE", txnId="1"), *self.head, self.one]
        self.last = [
            commit_info(timestamp=2, operation="WRITE", operationParameters={"a": "b"}, txnId="2"),
            {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
            txn("app", 5, 3),
            remove("f", size=self.one["add"]["size"], partitionValues=PARTITIONS),
            self.two,
        ]
        self.log.commit(*self.first)
        write_checksum(self.engine, self.log.table, 0)
        self.log.commit(*self.last)
        self.clean = self._contents()

    def _write(self, name: str) -> int:
        sink = io.BytesIO()
        ids = pa.table({"id": [1, 2, 3], "n": pa.array([1, 2, 3], pa.int32())})
        pq.write_table(ids, sink)
        self.files.put(f"{self.log.table}/{name}", sink.getvalue())
        return len(sink.getvalue())

    def _contents(self) -> dict[str, bytes]:
        paths = [s.path for s in self.files.list_tree(self.log.table, lambda _: False)]
        data = self.files.read_files([ByteRange(path=path) for path in paths])
        return dict(zip(paths, map(bytes, data), strict=True))

    def restore(self) -> None:
        """Every file as it was at the beginning, and no other."""
        now = self._contents()
        self.files.delete_files([path for path in now if path not in self.clean])
        for path, data in self.clean.items():
            if now.get(path) != data:
                self.files.put(path, data)

    def commit(self, version: int, actions: Any) -> None:
        """Replace a commit."""
        lines = [_text(action) for action in actions] if isinstance(actions, list) else []
        self.log.put(f"{version:020d}.json", "".join(f"{line}\n" for line in lines).encode())

    def use(self, rng: random.Random) -> None:
        """Read the table in some way, or write to it."""
        handle = TableHandle(self.engine, Table.for_path(self.engine, self.log.table))
        match rng.randrange(16):
            case 0:
                handle.history()
            case 8:
                self._append()
            case 9:
                handle.vacuum(dry_run=True)
            case 10:
                handle.optimize()
            case 11:
                handle.delete("id = 2")
            case 12:
                handle.changes(rng.randrange(2)).to_arrow()
            case 1:
                handle.detail()
            case 2:
                handle.snapshot().files()
            case 3:
                handle.to_arrow(timestamp="2030-01-01")
            case 4:
                checkpoint(self.engine, self.log.table)
                handle.to_arrow()
            case 5:
                write_checksum(self.engine, self.log.table, handle.snapshot().version)
            case _:
                assert handle.to_arrow(filter=rng.choice(FILTERS)).num_rows <= 10

    def _append(self) -> None:
        table = Table.for_path(self.engine, self.log.table)
        latest = table.latest_snapshot(self.engine)
        transaction = latest.build_update_table_transaction("test", Operation.WRITE).build(
            self.engine
        )
        rows = pa.record_batch({"id": [9], "p": ["b"]})
        state = transaction.transaction_state(self.engine)
        adds = write_data(self.engine, state, [rows])
        transaction.commit(self.engine, adds).run_post_commit_hooks(self.engine)


def _commit(log: ForeignLog, rng: random.Random) -> None:
    version = rng.randrange(2)
    actions = list(log.last if version else log.first)
    if version and not rng.randrange(3):
        features = ["deletionVectors", "columnMapping", "rowTracking", "domainMetadata"]
        vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
        if rng.randrange(2):
            vector = {
                "storageType": "i",
                "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000",
            }
        vector |= {"sizeInBytes": 40, "cardinality": 6}
        fields = {"deletionVector": vector, "baseRowId": 3, "defaultRowCommitVersion": 1}
        actions[-1] = {"add": {**log.two["add"], **fields, "tags": {"a": "b"}}}
        actions.append(protocol(3, 7, (features[:2], features)))
    log.commit(version, _mutated(actions, rng))


def _checkpoint(log: ForeignLog, rng: random.Random) -> None:
    """A checkpoint as JSON (V2), or as Parquet whose columns have other types or lack fields."""
    actions = [*log.head, *log.last[1:3], log.two]
    if rng.randrange(2):
        v2 = [protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), *actions[1:]]
        v2.append({"checkpointMetadata": {"version": 1}})
        lines = _mutated(v2, rng)
        text = "".join(f"{_text(line)}\n" for line in lines) if isinstance(lines, list) else ""
        log.log.put(f"{1:020d}.checkpoint.{uuid.UUID(int=1)}.json", text.encode())
        return
    (name,) = log.log.checkpoint(1, actions)
    (data,) = log.files.read_files([ByteRange(path=log.log.path(name))])
    table = pq.read_table(io.BytesIO(data))
    column = rng.choice(table.schema.names)
    at = table.schema.names.index(column)
    match rng.randrange(4):
        case 0:
            changed = table.drop_columns([column])
        case 1:
            length = table.num_rows
            values = rng.choice(([1] * length, ["x"] * length, [None] * length, [[1]] * length))
            changed = table.set_column(at, column, [pa.array(values)])
        case 2:
            kind = table.schema.field(column).type
            kept = [f for f in kind if rng.randrange(3)] or [kind[0]]
            changed = table.set_column(
                at, column, [table.column(column).combine_chunks().cast(pa.struct(kept))]
            )
        case _:
            rows = [_mutated_row(row, rng) for row in table.to_pylist()]
            try:
                changed = pa.Table.from_pylist(rows, table.schema)
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                return
    sink = io.BytesIO()
    try:
        pq.write_table(changed, sink)
    except (pa.ArrowException, ValueError):
        return
    log.log.put(name, sink.getvalue())


def _mutated_row(row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A row of a checkpoint with some fields null or other values of the same type."""
    slots = [s for s in _slots(row) if isinstance(s[0], dict)]
    container, key = rng.choice(slots)
    match container[key]:
        case int():
            container[key] = rng.choice((None, -1, 1 << 30, -(1 << 31)))
        case str():
            container[key] = rng.choice((None, "", "x", "{", "%00", "\U0001f600", "[" * 3000))
        case _:
            container[key] = None
    return row


def _checksum(log: ForeignLog, rng: random.Random) -> None:
    actions = [*log.head, *log.last[1:3], log.two]
    log.log.checkpoint(1, actions)
    stated = {
        "txnId": "2",
        "tableSizeBytes": 5,
        "numFiles": 1,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [{"appId": "app", "version": 5}],
        "domainMetadata": [log.last[1]["domainMetadata"]],
        "metadata": log.head[1]["metaData"],
        "protocol": log.head[0]["protocol"],
        "histogramOpt": {"sortedBinBoundaries": [0, 9], "fileCounts": [1, 2], "totalBytes": [3, 4]},
    }
    log.log.put(f"{rng.randrange(3):020d}.crc", _text(_mutated(stated, rng)).encode())


def _last_checkpoint(log: ForeignLog, rng: random.Random) -> None:
    pointer = {
        "version": 1,
        "size": 5,
        "parts": 1,
        "sizeInBytes": 7,
        "numOfAddFiles": 1,
        "checksum": "x",
        "checkpointSchema": {"type": "struct", "fields": []},
        "tags": {"a": "b"},
    }
    if rng.randrange(2):
        del pointer["checksum"]
    log.log.put("_last_checkpoint", _text(_mutated(pointer, rng)).encode())


def _schema(log: ForeignLog, rng: random.Random) -> None:
    body = dict(log.head[1]["metaData"])
    schema = json.loads(body["schemaString"])
    for field in schema["fields"]:
        if not rng.randrange(8):
            field["metadata"] = rng.choice(
                (
                    {"delta.columnMapping.id": 3, "delta.columnMapping.physicalName": "c"},
                    {"delta.typeChanges": [{"fromType": "byte", "toType": "long"}]},
                    {"delta.generationExpression": "id + 1"},
                    {"delta.invariants": '{"expression":{"expression":"id > 0"}}'},
                    {"delta.identity.start": 1, "delta.identity.step": 1},
                    {"CURRENT_DEFAULT": "7"},
                    {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"},
                )
            )
    body["schemaString"] = _text(_mutated(schema, rng))
    if not rng.randrange(4):
        mode = rng.choice(("name", "id", "none"))
        body["configuration"] = {"delta.columnMapping.mode": mode}
    log.commit(0, [log.first[0], log.head[0], {"metaData": body}, log.one])


def _statistics(log: ForeignLog, rng: random.Random) -> None:
    body = {**log.two["add"], "stats": _text(_mutated(STATS, rng))}
    log.commit(1, [*log.last[:-1], {"add": body}])


def _partition_values(log: ForeignLog, rng: random.Random) -> None:
    values = _mutated(PARTITIONS, rng)
    body = {**log.two["add"], "partitionValues": values}
    log.commit(1, [*log.last[:-1], {"add": body}])


KINDS: Mapping[str, Callable[[ForeignLog, random.Random], None]] = {
    "commits": _commit,
    "checkpoints": _checkpoint,
    "checksums": _checksum,
    "last checkpoint": _last_checkpoint,
    "schemas": _schema,
    "statistics": _statistics,
    "partition values": _partition_values,
}


@pytest.mark.timeout(60 + ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_log_gives_an_answer_or_one_of_our_errors(kind: str) -> None:
    log = ForeignLog()
    refused = 0
    for number in range(ROUNDS):
        rng = random.Random(f"{SEED} {kind} {number}")
        log.restore()
        KINDS[kind](log, rng)
        try:
            log.use(rng)
        except BayouError as error:
            refused += isinstance(error, CorruptTableError)
        except Exception as error:
            error.add_note(f"{kind}, seed {SEED}, round {number}")
            raise
    if kind in ("commits", "schemas"):
        assert refused > ROUNDS // 20


def test_names_that_are_not_utf_8_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "table"
    for n in range(3):
        bayou.write(str(path), pa.table({"id": [n], "p": ["a"]}), partition_by=["p"])
    root = os.fsencode(path)
    for name in (
        b"_delta_log/\xff\xfe.json",
        b"_delta_log/%020d\xff.json" % 2,
        b"_delta_log/%020d.checkpoint.\xff.parquet" % 2,
        b"_delta_log/_sidecars/\xff.parquet",
        b"_change_data/\xff.parquet",
        b"p=\xff/a\xfe.parquet",
        b"\xff.parquet",
    ):
        file = os.path.join(root, name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as stream:
            stream.write(b"x")
        os.utime(file, (1, 1))
    table = bayou.table(str(path))
    assert table.to_arrow().num_rows == 3
    table.vacuum(dry_run=False)
    table.optimize()
    table.create_checkpoint()
    assert table.history()[0]["operation"] == "OPTIMIZE"
    assert bayou.table(str(path)).to_arrow().num_rows == 3
