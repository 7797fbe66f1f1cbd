import os
import subprocess
import sys
import textwrap

import pytest

from bayou import spark as bayou_spark
from bayou.errors import ArgumentError, PrerequisiteError

ENABLED = "spark.bayou.enabled"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

pytestmark = pytest.mark.spark


def test_a_started_session_is_quiet_enabled_and_runs_this_python(spark):
    assert spark.conf.get(ENABLED) == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    pythons = spark.range(1).mapInArrow(_executable, "python string").collect()
    assert pythons[0].python == sys.executable


def _executable(batches):
    import pyarrow as pa

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable]})


def test_enabling_twice_and_disabling_leaves_the_conf_as_it_was(spark):
    session = spark.newSession()
    bayou_spark.enable(session)
    bayou_spark.enable(session)
    assert session.conf.get(ENABLED) == "true"
    assert session.conf.get(PUSHDOWN) == "true"
    try:
        bayou_spark.disable(session)
        bayou_spark.disable(session)
        assert session.conf.get(PUSHDOWN) == "false"
        assert session.conf.get(ENABLED, "unset") == "unset"
        assert session.conf.get("spark.sql.redaction.options.regex") == "(?i)url"
    finally:
        bayou_spark.enable(spark)
    later = spark.newSession()
    for key in (ENABLED, PUSHDOWN, "spark.sql.redaction.options.regex"):
        assert later.conf.get(key) == spark.conf.get(key)


@pytest.mark.parametrize(
    "name",
    [
        "kafka.ssl.key.pem",
        "kafka.ssl.keystore.key",
        "kafka.sasl.oauthbearer.config",
        "kafka.sasl.jaas.config",
        "kafka.sasl.password",
        "kafka.ssl.key.password",
    ],
)
def test_secret_options_of_kafka_are_hidden_in_plans(spark, name):
    """The command of a temporary view writes its plan to the event log in this form."""
    reader = spark.read.format("bayou-kafka").option("kafka.bootstrap.servers", "127.0.0.1:9")
    value = 'PlainLoginModule username="u" password="q7w8e9";' if "jaas" in name else "q7w8e9"
    records = reader.option("subscribe", "t").option(name, value).load()
    plan = records._jdf.queryExecution().analyzed().verboseStringWithOperatorId()
    assert "subscribe=t" in plan
    assert f"{name}=*********(redacted)" in plan
    assert "q7w8e9" not in plan


@pytest.mark.parametrize(
    "text",
    [
        "spark.app.credential",
        "spark.sql.catalog.größe.credential",
        "app.credentials.json",
        "-Dcredential=x",
        "-Dapp.credentials.value=x",
        "-Dfs.credential.json=/etc/x",
        "-Xmx1g --credential x",
        "--app-credentials x",
        "-credential 9",
        "credential: x",
        "credential: 9",
        "app.credential:9f8e",
        '{"credentials":{"a":1}}',
        "{'credential': 'x'}",
        "'credential' = 'x'",
        "credential = x",
        "credential -> x",
        "OPTIONS (credential 'x')",
        "OPTIONS ('fs.credential.value' \"x\")",
    ],
)
def test_credentials_in_names_and_values_of_the_conf_are_redacted(spark, text):
    assert is_redacted(spark, text)


@pytest.mark.parametrize(
    "text",
    [
        "fs.s3a.aws.credentials.provider",
        "org.example.PlainCredentialsProvider",
        "org.example.ACredentialsProvider,org.example.BCredentialsProvider",
        "-Dfs.s3a.aws.credentials.provider=org.example.PlainCredentialsProvider",
        "fs.s3a.aws.credentials.provider: org.example.PlainCredentialsProvider",
        "fs.s3a.aws.credentials.provider -> org.example.PlainCredentialsProvider",
        "--credentials-provider org.example.PlainCredentialsProvider",
        "/nowhere/credential-lib.jar",
        "credential-lib.jar",
        "credential-lib.jar:/x",
        "credential-lib.jar:lib/x.jar",
        "/opt/credential-service:/opt/x",
        "/opt/credential/conf:/opt/credential/lib/*",
        "C:\\lib\\credential-lib.jar;C:\\x",
        "credential-lib.jar,x.zip",
        "file:///opt/credential-lib.jar,hdfs://name:8020/x.jar",
        "--jars google-auth-library-credentials-1.23.0.jar app.jar",
        "com.google.auth:google-auth-library-credentials:1.23.0,org.example:x:1",
        "http://credential-service:8080/x",
        "credential-service:9092",
        "the credentials of a catalog",
    ],
)
def test_class_paths_packages_and_credential_providers_are_shown(spark, text):
    assert not is_redacted(spark, text)


def is_redacted(spark, text):
    expression = spark.sparkContext.getConf().get("spark.redaction.regex")
    return spark._jvm.java.util.regex.Pattern.compile(expression).matcher(text).find()


@pytest.mark.parametrize("method", ["enable", "disable", "sql"])
def test_what_is_no_session_is_refused(method):
    more = ("SELECT 1",) if method == "sql" else ()
    with pytest.raises(ArgumentError, match="a str isn't a session"):
        getattr(bayou_spark, method)("spark", *more)


def test_a_machine_without_java_is_told_so_before_spark_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PrerequisiteError, match="Java: it isn't installed"):
        bayou_spark.start_session()


@pytest.mark.slow
def test_delta_spark_on_the_class_path_is_warned_about(tmp_path):
    """Spark takes a JVM source before a Python one, silently."""
    folder = tmp_path / "io" / "delta" / "sql"
    folder.mkdir(parents=True)
    (folder / "DeltaSparkSessionExtension.class").touch()
    program = f"""
        import warnings
        from bayou import spark as bayou_spark
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            session = bayou_spark.start_session(
                conf={{"spark.driver.extraClassPath": {str(tmp_path)!r}}}, master="local[1]"
            )
        print([str(w.message) for w in caught if w.category is UserWarning])
        session.stop()
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "delta-spark's JAR is on the class path" in run.stdout


_COMMAND_LINES = """
import contextlib
import json
import os
from pathlib import Path
from urllib.request import urlopen
from bayou.spark import start_session

conf = {
    "spark.hadoop.fs.s3a.secret.key": "hunter2-key",
    "spark.hadoop.fs.s3a.session.token": "hunter2-token",
    "spark.kafka.truststore.password": "hunter2-store",
    "spark.hadoop.proxy.url": "http://bob:hunter2-url@host",
    "spark.driver.app.password": "hunter2-driver",
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "hunter2-account",
    "spark.hadoop.google.cloud.auth.service.account.private.key": "hunter2-private",
    "spark.driver.memory": "700m",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.app.shown": "shown-value",
    "spark.app.credential": "hunter2-credential",
    "spark.app.arguments": "-Dcredential=hunter2-argument",
    "spark.app.options": "-Dapp.credentials.value=hunter2-option",
    "spark.sql.catalog.größe.credential": "hunter2-catalog",
    "spark.hadoop.fs.s3a.aws.credentials.provider": "org.example.PlainCredentialsProvider",
    "spark.driver.extraClassPath": "/nowhere/credential-lib.jar",
}
spark = start_session("x", conf, "local[1]", java_options=("-XX:TieredStopAtLevel=1",))
lines = []
for path in Path("/proc").glob("[0-9]*/cmdline"):
    with contextlib.suppress(OSError):  # the process has ended
        lines.append(path.read_bytes())
print("JVMS", sum(b"-Xmx700m" in line and b"TieredStopAtLevel" in line for line in lines) > 0)
print("SHOWN", [line for line in lines if b"hunter2-" in line and b"-c" not in line.split(b"\\0")])
print("SET", all(spark.sparkContext.getConf().get(k) == v for k, v in conf.items()))
hadoop = spark._jsc.hadoopConfiguration()
print("HADOOP", hadoop.get("fs.s3a.secret.key"))
context = spark.sparkContext
url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
page = urlopen(url).read().decode()
print("PAGE", "shown-value" in page, "hunter2-" in page)
print("CLASSES", "org.example.PlainCredentialsProvider" in page)
entries = dict(json.loads(page)["classpathEntries"])
print("CLASS PATH", entries.get("/nowhere/credential-lib.jar"))
spark.stop()
"""


@pytest.mark.process
def test_secrets_of_the_conf_are_on_no_command_line_and_no_page():
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND_LINES],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    shown = done.stdout.splitlines()
    expected = ["JVMS True", "SHOWN []", "SET True", "HADOOP hunter2-key", "PAGE True False"]
    expected += ["CLASSES True", "CLASS PATH System Classpath"]
    assert shown == expected, done.stderr[-2000:]
