"""Tables on S3 with commits of engines that write them without put-if-absent."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.ingest.inspection import plan_run, table_report
from bayou.ingest.inspection.unconditional_commits import unconditional_commits
from bayou.kernel import Operation, Table
from support.scripted_s3 import scripted_s3

S3 = "s3://bucket/lake/events"
DELTA_SPARK = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"


@pytest.fixture
def s3():
    with scripted_s3() as script:
        yield script


def commit(path, engine_info, options=None):
    engine = for_path(path, options)
    table = Table.for_path(engine, path)
    table.create_transaction_builder(
        engine, engine_info=engine_info, operation=Operation.WRITE
    ).build(engine).commit(engine, [])


def create(path, options=None):
    bayou.write(path, pa.table({"id": [1]}), storage_options=options)


def warned(path, options=None):
    return dict(table_report(path, bayou.table(path, options)).unconditional_commits)


@pytest.mark.parametrize("engine", [DELTA_SPARK, "Kernel-4.4.0/Flink"])
def test_commits_of_an_engine_without_put_if_absent_are_found_on_s3(s3, engine):
    create(S3, s3.options)
    commit(S3, engine, s3.options)
    commit(S3, engine, s3.options)
    commit(S3, "delta-rs:py-1.2.1", s3.options)
    assert warned(S3, s3.options) == {engine: 2}
    assert warned(S3.replace("s3://", "s3a://"), s3.options) == {engine: 2}


def test_commits_with_put_if_absent_are_no_warning(s3):
    create(S3, s3.options)
    commit(S3, "delta-rs:py-1.2.1", s3.options)
    commit(S3, "Databricks-Runtime/17.3.x-scala2.13", s3.options)
    assert warned(S3, s3.options) == {}


def test_deltalake_commits_with_put_if_absent(s3):
    for number in range(2):
        rows = pa.table({"id": [number]})
        deltalake.write_deltalake(S3, rows, mode="append", storage_options=s3.options)
    log = f"{S3.removeprefix('s3://')}/_delta_log/"
    assert s3.puts == [f"{log}{version:020d}.json" for version in range(2)]
    assert warned(S3, s3.options) == {}


def test_commits_of_delta_spark_on_a_local_disk_are_no_warning(tmp_path):
    path = str(tmp_path / "table")
    create(path)
    commit(path, DELTA_SPARK)
    assert warned(path) == {}


def test_no_commit_is_read_if_the_table_is_local(tmp_path):
    create(str(tmp_path / "table"))
    snapshot = bayou.table(str(tmp_path / "table")).snapshot()
    assert unconditional_commits(snapshot, lambda limit: pytest.fail("read")) == {}


def test_verify_warns_of_them(s3, monkeypatch):
    from typer.testing import CliRunner

    from bayou.cli.main import command_line

    create(S3, s3.options)
    commit(S3, DELTA_SPARK, s3.options)
    for name, value in s3.options.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(command_line(), ["verify", S3])
    assert result.exit_code == 0
    assert f"{S3}: has commits of {DELTA_SPARK} (version 1)" in result.stderr
    assert "the page Stores" in result.stderr


def test_a_plan_names_them(s3, small_pipeline):
    pipeline = small_pipeline
    options = s3.options
    pipeline.more = (
        f"  storage: {{endpoint: '{options['AWS_ENDPOINT_URL']}', access-key: test, "
        "secret-key: test, region: us-east-1}\n"
    )
    pipeline.write_file()
    pipeline.file.write_text(pipeline.file.read_text().replace("lake/events", S3))
    pipeline.produce({"id": 1})
    pipeline.take_in()
    commit(S3, DELTA_SPARK, options)
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert plan.error is None
    assert plan.unconditional_commits == {DELTA_SPARK: bayou.table(S3, options).snapshot().version}
