"""A pipeline registers its table in Unity Catalog, and the commands read it by its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.unity_double import UnityDouble

TOKEN = "uc-token-0123456789"


@pytest.fixture
def double(tmp_path):
    with UnityDouble(str(tmp_path / "managed"), token=TOKEN) as server:
        yield server


def execute(*command, **environment):
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return subprocess.run(
        [sys.executable, "-m", "bayou.cli", *map(str, command)],
        capture_output=True,
        text=True,
        env={**os.environ, **python, **environment},
        check=False,
    )


@pytest.fixture
def pipeline(small_pipeline, double):
    small_pipeline.more = (
        "          table-properties: {delta.enableChangeDataFeed: true}\n"
        "        table-name: events\n        column-comments: {id: the number}\n"
        "      processing: {max-retries: 0}\n"
        f"  catalog: {{unity: {{uri: '{double.url}', token: '${{UC_TOKEN}}', catalog: lake, "
        "schema: shop}}\n"
    )
    small_pipeline.write_file()
    return small_pipeline


@pytest.mark.process
@pytest.mark.spark
def test_a_run_registers_its_table(pipeline, double):
    pipeline.produce({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    refused = execute("run", pipeline.file, "--once", UC_TOKEN="wrong-token-98765")
    assert refused.returncode == 1
    assert "uc://lake.shop.events: the catalog at http://127.0.0.1" in refused.stderr
    assert "Check UC_TOKEN" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "wrong-token-98765" not in refused.stdout + refused.stderr
    pipeline.produce({"id": 5, "name": "e"})
    ran = execute("run", pipeline.file, "--once", UC_TOKEN=TOKEN)
    assert ran.returncode == 0, ran.stderr[-3000:]
    entry = double.tables["lake.shop.events"]
    assert (entry.kind, entry.location) == ("EXTERNAL", f"file://{pipeline.path}")
    assert entry.properties["delta.enableChangeDataFeed"] == "true"
    fields = {f["name"]: f for f in entry.columns["fields"]}
    assert fields["id"]["metadata"]["comment"] == "the number"
    read = execute(
        *("read", "uc://lake.shop.events", "--config", pipeline.file, "--json"), UC_TOKEN=TOKEN
    )
    assert sorted(json.loads(line)["id"] for line in read.stdout.splitlines()) == [1, 2, 5]


@pytest.mark.process
def test_the_commands_take_names(double, tmp_path):
    environment = {"UC_URI": double.url, "UC_TOKEN": TOKEN}
    write = (
        "import bayou, pyarrow as pa; "
        "bayou.write('uc://lake.shop.events', pa.table({'id': [1, 2]}))"
    )
    subprocess.run([sys.executable, "-c", write], env={**os.environ, **environment}, check=True)
    read = execute("read", "uc://lake.shop.events", "--json", **environment)
    assert [json.loads(line)["id"] for line in read.stdout.splitlines()] == [1, 2]
    history = execute("history", "uc://lake.shop.events", "--json", **environment)
    assert json.loads(history.stdout.splitlines()[0])["version"] == 0
    assert execute("schema", "show", "uc://lake.shop.events", **environment).returncode == 0
    vacuum = execute("vacuum", "uc://lake.shop.events", **environment)
    assert vacuum.returncode == 1
    assert "doesn't permit VACUUM" in vacuum.stderr
    missing = execute("read", "uc://lake.shop.none", **environment)
    assert missing.returncode == 1
    assert "uc://lake.shop.none: the catalog at" in missing.stderr
    refused = execute("read", "uc://lake.shop.events", **{**environment, "UC_TOKEN": "secret-7"})
    assert refused.returncode == 1
    assert "secret-7" not in refused.stderr + refused.stdout
