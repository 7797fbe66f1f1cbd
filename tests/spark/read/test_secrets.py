"""Storage options hold credentials: what people look at, log or paste must not show them."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.spark.data_source import DeltaDataSource
from bayou.spark.read.options import SourceOptions
from bayou.spark.types import to_spark

pytestmark = pytest.mark.spark

SECRET = "open-sesame"
OPTIONS = {
    "aws_secret_access_key": SECRET,
    "azure_storage_account_key": SECRET,
    "fs.s3a.secret.key": SECRET,
}


@pytest.fixture
def path(tmp_path) -> str:
    bayou.write(str(tmp_path / "t"), pa.table({"id": [1, 2, 3]}))
    return str(tmp_path / "t")


def test_secrets_are_in_no_plan_of_a_read(spark, path):
    frame = spark.read.format("delta").options(**OPTIONS).load(path).where("id > 1")
    shown = io.StringIO()
    with redirect_stdout(shown):
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode=mode)
    plans = [shown.getvalue(), frame._jdf.queryExecution().toString(), repr(frame)]
    plans.append(frame._jdf.queryExecution().analyzed().toJSON())
    assert frame.count() == 2
    assert all("id" in plan for plan in plans)
    assert not any(SECRET in plan for plan in plans)


@pytest.mark.parametrize("new", [False, True])
def test_secrets_that_spark_does_not_know_are_in_no_plan_of_a_stream(spark, path, new):
    names = (
        "aws_sse_customer_key_base64",
        "azure_storage_access_key",
        "azure_storage_account_key",
        "azure_storage_master_key",
        "azure_storage_sas_key",
        "fs.s3a.encryption.key",
        "fs.s3a.server-side-encryption.key",
        "google_service_account_key",
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
    )
    session = spark.newSession() if new else spark
    stream = session.readStream.format("delta").options(**dict.fromkeys(names, SECRET)).load(path)
    session.createDataFrame([(1,)], "id INT")  # Spark redacts by the conf of the active session
    shown = io.StringIO()
    with redirect_stdout(shown):
        for mode in ("extended", "formatted", "cost", "codegen"):
            stream.explain(mode=mode)
    plans = shown.getvalue() + stream._jdf.queryExecution().toString()
    assert all(name in plans for name in names)
    assert SECRET not in plans


@pytest.mark.slow
def test_secrets_are_in_no_plan_and_no_progress_of_a_stream(spark, path, tmp_path):
    source = spark.readStream.format("rate").load().selectExpr("value AS id").limit(1)
    query = (
        source.writeStream.format("delta")
        .options(**OPTIONS)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(once=True)
        .start(path)
    )
    query.awaitTermination()
    shown = io.StringIO()
    with redirect_stdout(shown):
        query.explain(extended=True)
    assert SECRET not in shown.getvalue()
    assert SECRET not in str(query.lastProgress)
    assert SECRET not in str(query._jsq.toString())


def test_secrets_are_in_no_error_of_a_read(spark, tmp_path):
    with pytest.raises(PySparkException) as caught:
        spark.read.format("delta").options(**OPTIONS).load(str(tmp_path / "nothing")).count()
    assert SECRET not in str(caught.value)


def test_secrets_are_in_no_repr(path):
    source = DeltaDataSource({"path": path, **OPTIONS})
    schema = source.schema()
    reader = source.reader(schema)
    parts = list(reader.partitions())
    engine = ArrowEngine(OPTIONS)
    table = bayou.table(path, storage_options=OPTIONS)
    scan = table.snapshot().kernel.scan_builder().build()
    shown = [
        source,
        reader,
        parts,
        SourceOptions.parse({"path": path, **OPTIONS}),
        engine,
        engine.description(),
        engine.files,
        table,
        table.snapshot(),
        scan,
        scan.scan_state(engine),
        to_spark(table.snapshot().kernel.schema),
    ]
    assert not any(SECRET in f"{thing!r} {thing}" for thing in shown)
    state = scan.scan_state(engine).to_bytes()
    assert SECRET.encode() not in state + scan.to_bytes()
