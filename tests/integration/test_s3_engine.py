"""The engine, tables and concurrent writers on a real S3 server."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.parquet_files.parallel_encoding import is_worth_threads
from bayou.errors import BayouError
from bayou.kernel.engine import ByteRange, Engine
from bayou.testing import EngineSuite

_PROCESSES = 8
_COMMITS = 50

_WRITER = """
import sys

import pyarrow as pa

import bayou

path, writer, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.stdin.readline()  # all begin together
for number in range(commits):
    rows = pa.table({"writer": [writer], "number": [number]})
    version = bayou.write(path, rows, mode="append")
    print(version, flush=True)
"""


class TestS3(EngineSuite):
    """Everything that an engine promises, on s3://."""

    @pytest.fixture
    def engine(self, s3_server) -> Engine:
        return ArrowEngine(s3_server.storage_options)

    @pytest.fixture
    def root(self, bucket) -> str:
        return f"s3://{bucket}/root"


class TestS3a(TestS3):
    """The same by the name that Hadoop gives it."""

    @pytest.fixture
    def root(self, engine, bucket) -> str:
        return engine.files.resolve_path(f"s3a://{bucket}/root")


def test_of_eight_writers_of_each_of_fifty_keys_one_wins(s3_server, bucket):
    engines = [ArrowEngine(s3_server.storage_options) for _ in range(8)]
    barrier = threading.Barrier(8)

    def put(writer: int) -> list[bool]:
        data = b"%d" % writer * 1000
        won = []
        for key in range(50):
            barrier.wait()
            won.append(engines[writer].files.put_if_absent(f"s3://{bucket}/log/{key}", data))
        return won

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(put, range(8)))
    for key in range(50):
        winners = [writer for writer, won in enumerate(results) if won[key]]
        assert len(winners) == 1
        found = next(engines[0].files.read_files([ByteRange(path=f"s3://{bucket}/log/{key}")]))
        assert found == b"%d" % winners[0] * 1000


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_deltalake_reads_what_is_written_with_the_same_options(s3_server, bucket, scheme):
    path, options = f"{scheme}://{bucket}/events", s3_server.storage_options
    for number in range(12):  # past a checkpoint
        rows = pa.table({"id": [number, number + 100], "day": ["a b", "c=d/e%20"]})
        bayou.write(path, rows, mode="append", partition_by=["day"], storage_options=options)
    theirs = DeltaTable(path, storage_options=options)
    assert theirs.version() == 11
    read = bayou.table(path, storage_options=options).to_arrow().sort_by("id")
    assert read.num_rows == 24
    columns = read.column_names
    assert theirs.to_pyarrow_table().select(columns).sort_by("id").to_pylist() == read.to_pylist()


def test_files_that_several_threads_encode_come_whole(s3_server, bucket):
    path, options = f"s3://{bucket}/large", s3_server.storage_options
    numbers = pa.array(range(600_000), pa.int64())
    rows = pa.table({"id": numbers, "twice": pc.multiply(numbers, 2)})
    assert is_worth_threads(rows)
    bayou.write(path, rows, storage_options=options)
    bayou.write(path, rows, mode="append", storage_options=options)
    bayou.table(path, options).optimize()
    theirs = DeltaTable(path, storage_options=options).to_pyarrow_table(columns=rows.column_names)
    assert theirs.sort_by("id").column("id").to_pylist() == sorted([*range(600_000)] * 2)
    assert pc.all(pc.equal(theirs["twice"], pc.multiply(theirs["id"], 2))).as_py()


def test_a_table_of_deltalake_is_read_with_the_same_options(s3_server, bucket):
    from deltalake import write_deltalake

    path, options = f"s3://{bucket}/theirs", s3_server.storage_options
    rows = pa.table({"id": [1, 2, 3], "day": ["x", "y", "x"]})
    write_deltalake(path, rows, partition_by=["day"], storage_options=options)
    read = bayou.table(path, storage_options=options).to_arrow(filter="day = 'x'")
    assert sorted(read.column("id").to_pylist()) == [1, 3]


@pytest.mark.slow
def test_eight_processes_with_fifty_commits_each_make_400_versions(s3_server, bucket, environment):
    path = f"s3://{bucket}/shared"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, path, str(writer), str(_COMMITS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for writer in range(_PROCESSES)
    ]
    versions = []
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        out, err = writer.communicate(timeout=800)
        assert writer.returncode == 0, err
        versions += [int(line) for line in out.split()]
    assert sorted(versions) == list(range(_PROCESSES * _COMMITS))
    table = DeltaTable(path, storage_options=s3_server.storage_options)
    assert table.version() == _PROCESSES * _COMMITS - 1
    rows = table.to_pyarrow_table()
    found = sorted(zip(*(rows.column(c).to_pylist() for c in ("writer", "number")), strict=True))
    assert found == [(w, n) for w in range(_PROCESSES) for n in range(_COMMITS)]


class TestAWrongSetting:
    """One clear error after a limited number of attempts, without secrets."""

    @pytest.fixture
    def options(self, s3_server):
        return dict(s3_server.storage_options)

    @pytest.mark.parametrize("writing", [False, True], ids=["read", "write"])
    def test_a_wrong_secret_is_refused_credentials(self, options, bucket, writing):
        secret = options["AWS_SECRET_ACCESS_KEY"] = "not-the-secret-0123456789"
        message = _refusal(f"s3://{bucket}/t", options, writing)
        assert "refused the credentials" in message
        assert secret not in message

    @pytest.mark.parametrize("writing", [False, True], ids=["read", "write"])
    def test_an_unknown_access_key_is_told_in_the_words_of_the_store(
        self, options, bucket, writing
    ):
        options["AWS_ACCESS_KEY_ID"] = "NOBODY"
        message = _refusal(f"s3://{bucket}/t", options, writing)
        assert "No user exists with the provided access key ID" in message

    @pytest.mark.parametrize("writing", [False, True], ids=["read", "write"])
    def test_an_endpoint_where_nobody_listens_is_named(self, options, bucket, writing):
        from servers.process import free_port

        options["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{free_port()}"
        options["max_retries"] = "2"
        message = _refusal(f"s3://{bucket}/t", options, writing)
        assert options["AWS_ENDPOINT_URL"] in message
        assert "after 2 retries, max_retries: 2, retry_timeout: 60s" in message
        assert options["AWS_SECRET_ACCESS_KEY"] not in message

    @pytest.mark.parametrize("writing", [False, True], ids=["read", "write"])
    def test_a_missing_bucket_is_named(self, options, writing):
        message = _refusal("s3://no-such-bucket/t", options, writing)
        assert "no-such-bucket" in message


def _refusal(path: str, options: dict[str, str], writing: bool) -> str:
    with pytest.raises(BayouError) as caught:
        _use(path, options, writing)
    message = caught.value.message
    assert len(message.splitlines()) == 1
    assert len(message) < 500
    for secret in (options["AWS_SECRET_ACCESS_KEY"], "Signature", "AWS4-HMAC"):
        assert secret not in message
    return message


def _use(path: str, options: dict[str, str], writing: bool) -> None:
    if writing:
        bayou.write(path, pa.table({"a": [1]}), mode="append", storage_options=options)
    else:
        bayou.table(path, storage_options=options).to_arrow()
