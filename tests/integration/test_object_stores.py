"""The engine, tables and concurrent writers on Azure (azurite) and Google Cloud Storage (a double).

Google's XML API is a double of ours, `support.google_storage`: the emulators have no listings, or
no conditional puts, in this API.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.ingest.config import load_configuration
from bayou.ingest.inspection import plan_run, prove_offsets
from bayou.kernel.engine import Engine
from bayou.spark.kafka.embedded_broker import ProducedRecord
from bayou.testing import EngineSuite
from support.google_storage import GoogleStorage, google_storage
from support.in_process_pipeline import take_in

_YAML_KEYS = {
    "AZURE_STORAGE_ACCOUNT_NAME": "account-name",
    "AZURE_STORAGE_ACCOUNT_KEY": "account-key",
    "AZURE_ENDPOINT": "endpoint",
    "GOOGLE_BEARER_TOKEN": "bearer-token",
    "GOOGLE_BASE_URL": "endpoint",
}
_WRITERS = 4
_COMMITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A bucket or container of the test's own."""

    root: str
    options: dict[str, str]


@pytest.fixture(scope="module")
def google() -> Iterator[GoogleStorage]:
    with google_storage() as store:
        yield store


@pytest.fixture
def azure_store(azure_server) -> Store:
    container = f"test-{uuid.uuid4().hex[:12]}"
    azure_server.create_container(container)
    return Store(root=f"az://{container}", options=azure_server.storage_options)


@pytest.fixture
def google_store(google) -> Store:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    google.buckets.add(bucket)
    return Store(root=f"gs://{bucket}", options=google.storage_options)


@pytest.fixture(params=["azure", "google"])
def store(request) -> Store:
    return request.getfixturevalue(f"{request.param}_store")


@pytest.mark.slow
class TestAzure(EngineSuite):
    """Everything that an engine promises, on az://."""

    @pytest.fixture
    def engine(self, azure_store) -> Engine:
        return ArrowEngine(azure_store.options)

    @pytest.fixture
    def root(self, azure_store) -> str:
        return f"{azure_store.root}/root"


@pytest.mark.slow
class TestGoogle(EngineSuite):
    """Everything that an engine promises, on gs://."""

    @pytest.fixture
    def engine(self, google_store) -> Engine:
        return ArrowEngine(google_store.options)

    @pytest.fixture
    def root(self, google_store) -> str:
        return f"{google_store.root}/root"


def test_a_file_is_created_once(store):
    files = ArrowEngine(store.options).files
    path = f"{store.root}/t/_delta_log/{0:020d}.json"
    assert files.put_if_absent(path, b"first")
    assert not files.put_if_absent(path, b"second")
    with files.open_input(path) as file:
        assert file.read() == b"first"


def test_hadoops_uri_of_azure_names_the_same_table(azure_server, azure_store):
    options, container = azure_store.options, azure_store.root.removeprefix("az://")
    account = f"{container}@{azure_server.ACCOUNT}.dfs.core.windows.net"
    bayou.write(f"abfss://{account}/t", pa.table({"id": [1]}), storage_options=options)
    for root in (f"abfs://{account}", f"abfss://{container}", f"az://{container}"):
        assert bayou.table(f"{root}/t", options).to_arrow()["id"].to_pylist() == [1]


def test_each_of_many_concurrent_commits_is_a_version_of_its_own(store):
    path, options = f"{store.root}/table", store.options
    bayou.write(path, pa.table({"writer": [-1], "number": [-1]}), storage_options=options)

    def commit(writer: int) -> list[int]:
        return [
            bayou.write(
                path,
                pa.table({"writer": [writer], "number": [number]}),
                mode="append",
                storage_options=options,
            )
            for number in range(_COMMITS)
        ]

    with ThreadPoolExecutor(_WRITERS) as pool:
        versions = [version for group in pool.map(commit, range(_WRITERS)) for version in group]
    assert sorted(versions) == list(range(1, _WRITERS * _COMMITS + 1))
    rows = bayou.table(path, options).to_arrow(filter="writer >= 0").to_pylist()
    expected = [(w, n) for w in range(_WRITERS) for n in range(_COMMITS)]
    assert sorted((row["writer"], row["number"]) for row in rows) == expected


def test_vacuum_deletes_the_files_that_no_version_needs(store):
    path, options = f"{store.root}/table", store.options
    for number in range(3):
        bayou.write(path, pa.table({"id": [number]}), mode="append", storage_options=options)
    table = bayou.table(path, options)
    table.optimize()
    files = ArrowEngine(options).files
    before = [f.path for f in files.list_tree(path, lambda _: False) if f.path.endswith("parquet")]
    time.sleep(1)  # stores truncate times to seconds, and a vacuum keeps files of its second
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    after = [f.path for f in files.list_tree(path, lambda _: False) if f.path.endswith("parquet")]
    assert (len(before), len(after)) == (4, 1)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2]


def configuration_file(store: Store, broker, topic: str, folder: Path) -> Path:
    """Write a pipeline's configuration, with the settings of its store."""
    keys = {_YAML_KEYS[name]: value for name, value in store.options.items()}
    section = "azure" if store.root.startswith("az:") else "google"
    file = folder / "pipeline.yaml"
    file.write_text(
        f"connector:\n  kafka: {{bootstrap-servers: '{broker.bootstrap_servers}'}}\n"
        f"  storage:\n    {section}: {json.dumps(keys)}\n"
        f"  topics:\n    events:\n      kafka-topic: {topic}\n"
        f"      destination: {{table-path: '{store.root}/events'}}\n"
    )
    return file


@pytest.fixture
def pipeline(store, embedded_broker, tmp_path):
    topic = f"t{uuid.uuid4().hex[:12]}"
    embedded_broker.create_topic(topic, 1)
    embedded_broker.produce(topic, [ProducedRecord(json.dumps({"id": i}).encode()) for i in "abc"])
    return configuration_file(store, embedded_broker, topic, tmp_path)


def test_a_pipeline_runs_plans_and_proves_its_table(store, pipeline):
    configuration = load_configuration(pipeline, environment={})
    configuration.check_runnable()
    (plan,) = plan_run(configuration, configuration.topics)
    assert (plan.error, plan.records, plan.creates) == (None, 3, True)
    take_in(pipeline)
    rows = bayou.table(f"{store.root}/events", store.options).to_arrow()
    assert sorted(rows["id"].to_pylist()) == ["a", "b", "c"]
    assert prove_offsets(configuration, configuration.topics[0]).holds
    take_in(pipeline)
    assert bayou.table(f"{store.root}/events", store.options).to_arrow().num_rows == 3


def test_the_command_reads_a_table_with_credentials_of_the_environment(store):
    path = f"{store.root}/table"
    bayou.write(path, pa.table({"id": [7]}), storage_options=store.options)
    result = subprocess.run(
        [sys.executable, "-m", "bayou.cli", "read", path, "--json"],
        env={**os.environ, **store.options},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout) == {"id": 7}


@pytest.mark.spark
def test_a_killed_run_on_azure_loses_and_doubles_nothing(azure_store, tmp_path, embedded_broker):
    topic = f"t{uuid.uuid4().hex[:12]}"
    embedded_broker.create_topic(topic, 1)
    values = [json.dumps({"id": str(number)}).encode() for number in range(400)]
    embedded_broker.produce(topic, [ProducedRecord(value) for value in values])
    file = configuration_file(azure_store, embedded_broker, topic, tmp_path)
    file.write_text(file.read_text() + "      processing: {batch-size: 40}\n")
    command = [sys.executable, "-m", "bayou.cli", "run", str(file), "--once", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if json.loads(line)["event"] == "batch_committed")
        process.kill()
    configuration = load_configuration(file, environment={})
    subprocess.run(command, check=True, capture_output=True)
    proof = prove_offsets(configuration, configuration.topics[0])
    assert proof.holds
    rows = bayou.table(f"{azure_store.root}/events", azure_store.options).to_arrow()
    assert sorted(map(int, rows["id"].to_pylist())) == list(range(400))
