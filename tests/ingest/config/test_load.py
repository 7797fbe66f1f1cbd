"""Configurations: what they mean, and where they are wrong."""

from __future__ import annotations

import traceback

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration, without_delta_spark
from support.configuration_files import MINIMAL, load, problem


def test_paths_are_relative_to_the_file(tmp_path):
    configuration = load(tmp_path, MINIMAL)
    (topic,) = configuration.topics
    assert topic.key == "events"
    assert topic.table_path == str(tmp_path / "lake" / "events")
    assert configuration.state_path == tmp_path / ".bayou"
    assert topic.config.destination.name == "events"
    assert topic.config.processing.batch_size == 100_000


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "text"),
    [
        (
            'kafka-topic: "events.v1"',
            'kafka-topc: "events.v1"',
            6,
            "connector.topics.events.kafka-topc",
            "did you mean 'kafka-topic'?",
        ),
        (
            'table-path: "lake/events"',
            'table-path: "lake/events"\n        delta-config:\n          checkpoint-interval: ten',
            10,
            "connector.topics.events.destination.delta-config.checkpoint-interval",
            "must be a whole number",
        ),
        (
            'table-path: "lake/events"',
            'table-path: "lake/events"\n        format: json',
            9,
            "connector.topics.events.destination.format",
            "exactly once",
        ),
        (
            'table-path: "lake/events"',
            'table-path: "s3a://other/events"\n        bucket: mine',
            7,
            "connector.topics.events.destination",
            "correct one of them or remove bucket",
        ),
        (
            'kafka-topic: "events.v1"',
            'kafka-topic: "events v1"',
            6,
            "connector.topics.events.kafka-topic",
            "isn't a valid Kafka topic name",
        ),
        (
            'kafka-topic: "events.v1"',
            'kafka-topic: "${TOPIC}"',
            6,
            "connector.topics.events.kafka-topic",
            "TOPIC isn't set",
        ),
        (
            'kafka-topic: "events.v1"',
            'kafka-topic: "events.v1"\n      schema-file: nowhere.json',
            7,
            "connector.topics.events.schema-file",
            "relative to the folder of the configuration file",
        ),
        (
            'table-path: "lake/events"',
            'table-path: "lake/events"\n        bucket: mine',
            7,
            "connector.topics.events.destination",
            "write s3a://mine/lake/events or remove bucket",
        ),
        (
            'bootstrap-servers: "localhost:9092"',
            'bootstrap-servers: "localhost:9092"\n    security: {username: u, password: p}',
            4,
            "connector.kafka.security",
            "set protocol to SASL_SSL",
        ),
        (
            'bootstrap-servers: "localhost:9092"',
            'bootstrap-servers: "localhost:9092"\n    security: {}\n    security.protocol: SSL',
            2,
            "connector.kafka",
            "security.protocol and security are the same setting",
        ),
        (
            "  topics:",
            "  spark: {spark.executor.memory: }\n  topics:",
            4,
            "connector.spark",
            "spark.executor.memory must be a string",
        ),
        (
            "  topics:",
            "  spark: {executor-memory: 1g}\n  topics:",
            4,
            "connector.spark.executor-memory",
            "a Spark conf, which starts with 'spark.'",
        ),
        (
            'table-path: "lake/events"',
            'table-path: "lake/events"\n        partition-columns: [day, DAY]',
            9,
            "connector.topics.events.destination.partition-columns",
            "listed twice",
        ),
        (
            'bootstrap-servers: "localhost:9092"',
            'bootstrap-server: "localhost:9092"',
            3,
            "connector.kafka.bootstrap-server",
            "did you mean 'bootstrap-servers'?",
        ),
        (
            'bootstrap-servers: "localhost:9092"',
            'bootstrap-servers: "http://x:9092"',
            3,
            "connector.kafka.bootstrap-servers",
            "http:// isn't the address of a broker",
        ),
        (
            'bootstrap-servers: "localhost:9092"',
            'bootstrap-servers: "a:1,b:99999"',
            3,
            "connector.kafka.bootstrap-servers",
            "a port must be a number from 1 to 65535",
        ),
        (
            "  topics:",
            "  monitoring: {port: abc}\n  topics:",
            4,
            "connector.monitoring.port",
            "must be a whole number",
        ),
        (
            "  topics:",
            "  monitoring: {port: 1, interval-seconds: -1}\n  topics:",
            4,
            "connector.monitoring.interval-seconds",
            "must be more than 0",
        ),
        (
            "  topics:",
            "  schema-registry: {url: notaurl}\n  topics:",
            4,
            "connector.schema-registry.url",
            "must begin with http://",
        ),
        (
            "  topics:",
            "  schema-registry: {url: 'http://'}\n  topics:",
            4,
            "connector.schema-registry.url",
            "has no host",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(tmp_path, old, new, line, key, text):
    error = problem(tmp_path, MINIMAL.replace(old, new))
    assert (error.line, error.key) == (line, key)
    assert f"pipeline.yaml:{line}: {key}: " in error.message
    assert text in error.message


def test_every_mistake_of_a_file_is_told_at_once(tmp_path):
    text = MINIMAL.replace("kafka-topic", "kafka-topc").replace("table-path", "table-pth")
    lines = problem(tmp_path, text).message.splitlines()
    assert any(":6: " in line and "kafka-topc" in line for line in lines)
    assert any(":8: " in line and "did you mean 'table-path'?" in line for line in lines)


@pytest.mark.parametrize(
    "setting",
    [
        "connector.kafka.sasl.password:hunter2",
        "connector.kafka.sasl.password=[hunter2",
        "a=[hunter2",
        "hunter2",
        "hunter2==",
        "hunter2.x=1",
        "=hunter2",
        ".=hunter2",
        "connector=hunter2",
    ],
)
def test_a_setting_that_cannot_be_read_is_told_without_its_value(tmp_path, setting):
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, MINIMAL, settings=[setting])
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml: the file doesn't exist"):
        load_configuration(tmp_path / "nowhere.yaml", environment={})


def test_variables_are_replaced_and_have_defaults(tmp_path):
    text = MINIMAL.replace("localhost:9092", "${HOST:-nowhere}:${PORT}").replace(
        "lake/events", "lake/$${literal}"
    )
    configuration = load(tmp_path, text, environment={"PORT": "1234"})
    assert configuration.connector.kafka.bootstrap_servers == "nowhere:1234"
    assert configuration.topics[0].table_path.endswith("lake/${literal}")


def test_settings_override_keys_with_dots_too(tmp_path):
    configuration = load(
        tmp_path,
        MINIMAL.replace("events:", "user.events:"),
        settings=[
            "connector.kafka.bootstrap-servers=other:1",
            "connector.kafka.fetch.min.bytes=7",
            "connector.topics.user.events.processing.batch-size=50000",
            "connector.topics.user.events.destination.partition-columns=[year, month]",
        ],
    )
    properties = configuration.connector.kafka.client_properties()
    assert properties == {"bootstrap.servers": "other:1", "fetch.min.bytes": "7"}
    (topic,) = configuration.topics
    assert topic.config.processing.batch_size == 50_000
    assert topic.config.destination.partition_columns == ("year", "month")


@pytest.mark.parametrize("setting", ["connector", "=1", "connector.", "other=1"])
def test_a_setting_without_a_key_is_named_by_its_position(tmp_path, setting):
    settings = ["connector.kafka.bootstrap-servers=h:1", setting]
    message = problem(tmp_path, MINIMAL, settings=settings).message
    assert "--set: argument 2 must have the form KEY=VALUE" in message


def test_a_setting_that_leads_nowhere_is_an_error(tmp_path):
    key = "connector.kafka.bootstrap-servers.x"
    assert f"--set {key}: " in problem(tmp_path, MINIMAL, settings=[f"{key}=1"]).message


def test_a_wrong_value_is_told_with_where_it_came_from_and_no_secret_is_said(tmp_path):
    message = problem(
        tmp_path,
        MINIMAL,
        settings=["connector.topics.events.processing.batch-size=hunter2"],
        environment={"AWS_ALLOW_HTTP": "hunter3"},
    ).message
    assert "--set connector.topics.events.processing.batch-size: " in message
    assert "environment variable AWS_ALLOW_HTTP: connector.storage.allow-http: " in message
    assert "hunter" not in message


def test_a_setting_that_looks_like_a_number_stays_the_text_that_it_is(tmp_path):
    settings = ["connector.storage.access-key=0123", "connector.storage.secret-key=1e5"]
    options = load(tmp_path, MINIMAL, settings=settings).connector.storage.storage_options()
    assert options == {"AWS_ACCESS_KEY_ID": "0123", "AWS_SECRET_ACCESS_KEY": "1e5"}


def test_a_schema_file_may_lie_below_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "schema.json").write_text('{"type": "object"}')
    text = MINIMAL.replace('"lake/events"', "lake/events\n      schema-file: ~/schema.json")
    (topic,) = load(tmp_path, text).topics
    assert topic.schema_file == tmp_path / "home" / "schema.json"


def test_home_folders_of_nobody_are_told_with_their_keys(tmp_path):
    more = (
        "  state-path: ~nobody-here/state\n"
        "  migration: {json-path: {events: 'file://~nobody-here/json'}}\n"
    )
    path = "~nobody-here/lake\n      schema-file: ~nobody-here/schema.json"
    text = MINIMAL.replace('"lake/events"', path) + more
    message = problem(tmp_path, text).message
    of_topic = ("topics.events.destination.table-path", "topics.events.schema-file")
    for key in ("state-path", *of_topic, "migration.json-path.events"):
        assert f"connector.{key}: user '~nobody-here' has no home folder" in message


@pytest.mark.parametrize(
    ("escape", "character"), [("\\0", "a NUL character"), ("\\ud800", "a lone surrogate")]
)
def test_paths_with_characters_that_no_path_can_contain_are_refused_with_their_keys(
    tmp_path, escape, character
):
    path = f'"lake/{escape}"\n      schema-file: "{escape}"'
    text = MINIMAL.replace('"lake/events"', path) + f'  state-path: "{escape}"\n'
    lines = problem(tmp_path, text).message.splitlines()
    keys = ("topics.events.destination.table-path", "topics.events.schema-file", "state-path")
    assert len(lines) == len(keys)
    for line, key in zip(lines, keys, strict=True):
        assert f"connector.{key}: the path contains {character}; remove it" in line


@pytest.mark.parametrize("key", ["bootstrap-servers", "bootstrap.servers"])
def test_a_key_without_a_value_is_filled_in_and_one_with_a_value_is_not(tmp_path, key):
    environment = {"KAFKA_BOOTSTRAP_SERVERS": "env:1"}
    for value, expected in (("", "env:1"), ('"file:1"', "file:1")):
        text = MINIMAL.replace('bootstrap-servers: "localhost:9092"', f"{key}: {value}")
        if not value:
            text = text.replace("bootstrap.servers", "bootstrap-servers")
        configuration = load(tmp_path, text, environment=environment)
        assert configuration.connector.kafka.bootstrap_servers == expected


def test_the_environment_fills_in_what_the_file_leaves_out(tmp_path):
    text = MINIMAL.replace('  kafka:\n    bootstrap-servers: "localhost:9092"\n', "")
    configuration = load(
        tmp_path,
        text,
        environment={
            "KAFKA_BOOTSTRAP_SERVERS": "env:9092",
            "AWS_ENDPOINT_URL": "http://s3",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "AWS_ALLOW_HTTP": "true",
            "BAYOU_STATE_PATH": "/state",
        },
    )
    assert configuration.connector.kafka.bootstrap_servers == "env:9092"
    assert str(configuration.state_path) == "/state"
    options = configuration.connector.storage.storage_options()
    assert options == {
        "AWS_ENDPOINT_URL": "http://s3",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_ALLOW_HTTP": "true",
    }
    assert "hunter2" not in repr(configuration)


def test_the_file_goes_before_the_environment(tmp_path):
    configuration = load(tmp_path, MINIMAL, environment={"KAFKA_BOOTSTRAP_SERVERS": "env:9092"})
    assert configuration.connector.kafka.bootstrap_servers == "localhost:9092"


def test_without_a_broker_the_error_says_what_to_write(tmp_path):
    text = MINIMAL.replace('  kafka:\n    bootstrap-servers: "localhost:9092"\n', "")
    configuration = load(tmp_path, text)
    configuration.check_supported()
    with pytest.raises(ConfigurationError, match="KAFKA_BOOTSTRAP_SERVERS"):
        configuration.check_runnable()


def test_variables_are_filled_in_on_the_command_line_too(tmp_path):
    setting = "connector.topics.events.destination.partition-columns=[x, '${COLUMN:-y}']"
    configuration = load(tmp_path, MINIMAL, settings=[setting], environment={"COLUMN": "z"})
    assert configuration.topics[0].config.destination.partition_columns == ("x", "z")
    setting = "connector.topics.events.kafka-topic=${TOPIC}"
    with pytest.raises(ConfigurationError, match=r"--set .*variable TOPIC isn't set"):
        load(tmp_path, MINIMAL, settings=[setting], environment={})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("connector: 5", "connector: must be a section"),
        ("connector:\n  topics: 5", "connector.topics: must be a section"),
        ("connector:\n  topics: {}", "connector.topics: is empty"),
        (MINIMAL + "        partition-columns: year\n", "must be a list, such as"),
    ],
)
def test_a_value_of_another_shape_is_refused_in_the_words_of_the_file(tmp_path, text, said):
    assert said in problem(tmp_path, text).message


def test_security_becomes_the_properties_of_the_client(tmp_path):
    text = MINIMAL.replace(
        "  topics:",
        "    security: {protocol: SASL_SSL, mechanism: PLAIN, username: u, password: p}\n  topics:",
    )
    assert load(tmp_path, text).connector.kafka.client_properties() == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
    }


def test_a_table_path_with_credentials_in_another_bucket_is_not_shown(tmp_path):
    path = 'table-path: "s3a://key:hunter2@other/events"\n        bucket: mine'
    error = problem(tmp_path, MINIMAL.replace('table-path: "lake/events"', path))
    assert "bucket differs from the bucket of table-path" in error.message
    assert "hunter2" not in error.message


def test_a_bucket_and_a_name_form_the_path(tmp_path):
    text = MINIMAL.replace('table-path: "lake/events"', "bucket: b\n        table-name: t")
    assert load(tmp_path, text).topics[0].table_path == "s3a://b/t"


def test_an_interval_without_its_switch_is_said_to_have_no_effect(tmp_path):
    text = MINIMAL + (
        "        delta-config:\n          enable-optimize: true\n          optimize-interval: 5\n"
        "          vacuum-retention-hours: 168\n          enable-compaction: false\n"
    )
    (notice,) = load(tmp_path, text).notices
    assert (notice.key.rsplit(".", 1)[-1], notice.line) == ("vacuum-retention-hours", 12)
    assert "not used without enable-vacuum: true" in notice.text


def test_columns_of_a_z_order_that_nothing_uses_are_said_to_have_no_effect(tmp_path):
    text = MINIMAL + "        delta-config: {z-order-by: [a]}\n"
    (notice,) = load(tmp_path, text).notices
    assert "z-order-by: not used without enable-optimize: true" in notice.text
    switched = text.replace("[a]", "[a], enable-optimize: true")
    assert load(tmp_path, switched).notices == ()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("delta-config: {z-order-by: [a, A]}", "column 'A' is listed twice"),
        (
            "cluster-by: [a]\n        delta-config: {z-order-by: [a]}",
            "remove delta-config.z-order-by",
        ),
        (
            "partition-columns: [day]\n        delta-config: {z-order-by: [DAY]}",
            "has the partition column 'DAY'",
        ),
    ],
)
def test_a_z_order_that_cannot_be_is_refused(tmp_path, lines, problem):
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, MINIMAL + f"        {lines}\n")
    assert problem in str(caught.value)


def test_maintenance_by_the_clock_that_is_off_is_said_to_do_nothing(tmp_path):
    switches = ("enable-optimize", "enable-compaction", "enable-vacuum")
    text = MINIMAL + "        delta-config:\n          optimize-interval: 5\n"
    text += "".join(f"          {switch}: true\n" for switch in switches)
    assert load(tmp_path, text).notices == ()
    found = load(tmp_path, text + "  maintenance: {schedule: off}\n").notices
    assert [notice.key.rsplit(".", 1)[-1] for notice in found] == list(switches[1:])
    assert "does nothing with maintenance.schedule: off; run bayou vacuum" in found[1].text


@pytest.mark.parametrize("value", [".inf", ".nan"])
def test_a_number_is_a_number(tmp_path, value):
    text = MINIMAL + f"      processing: {{flush-interval: {value}}}\n"
    assert "flush-interval: must be a finite number" in problem(tmp_path, text).message


def test_files_of_a_topic_that_there_is_not_are_no_migration(tmp_path):
    text = MINIMAL + "  migration: {enabled: true, json-path: {event: old/json}}\n"
    error = problem(tmp_path, text)
    assert error.key == "connector.migration.json-path.event"
    assert "unknown topic 'event'; did you mean 'events'?" in error.message
    (notice,) = load(tmp_path, MINIMAL + "  migration: {json-path: {events: old/json}}\n").notices
    assert "json-path: not used without enabled: true" in notice.text


@pytest.mark.parametrize(
    ("said", "seconds"), [("hourly", 3600), ("daily", 86400), ("off", None), ("15m", 900)]
)
def test_maintenance_has_a_schedule(tmp_path, said, seconds):
    text = MINIMAL + f"  maintenance: {{schedule: '{said}'}}\n"
    assert load(tmp_path, text).connector.maintenance.seconds == seconds


def test_a_schedule_that_is_none_is_refused(tmp_path):
    text = MINIMAL + "  maintenance: {schedule: sometimes}\n"
    assert "write hourly, daily, off" in problem(tmp_path, text).message


UPSERT = """\
        key-columns: [id]
        delta-config:
          enable-upsert: {enabled}
          enable-vacuum: true
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sesion.timeout.ms: 6000", 'No such configuration property: "sesion.timeout.ms"'),
        ("fetch.min.bytes: abc", 'Invalid value for configuration property "fetch.min.bytes"'),
        ("auto.offset.reset: earliest", "Set starting-offsets of the topic"),
    ],
)
def test_what_the_kafka_client_does_not_take_is_a_wrong_configuration(tmp_path, line, said):
    text = MINIMAL.replace("  topics:", f"    {line}\n  topics:", 1)
    configuration = load(tmp_path, text)
    with pytest.raises(ConfigurationError, match=said) as caught:
        configuration.check_supported()
    assert "connector.kafka" in caught.value.message
    assert "Option" not in caught.value.message


def test_an_upsert_has_its_key_from_either_section(tmp_path):
    configuration = load(tmp_path, MINIMAL + UPSERT.format(enabled="true"))
    configuration.check_runnable()
    (topic,) = configuration.topics
    assert topic.upsert_keys.columns == ("id",)
    text = MINIMAL + UPSERT.format(enabled="true").replace("        key-columns: [id]\n", "")
    (topic,) = load(tmp_path, text + "          key-columns: [id]\n").topics
    assert topic.upsert_keys.columns == ("id",)
    with pytest.raises(ConfigurationError, match="differ"):
        load(tmp_path, MINIMAL + UPSERT.format(enabled="true") + "          key-columns: [x]\n")


def test_an_upsert_without_a_key_appends_and_says_so(tmp_path):
    text = MINIMAL + "        delta-config:\n          enable-upsert: true\n"
    configuration = load(tmp_path, text)
    configuration.check_runnable()
    (notice,) = configuration.notices
    assert "every record is appended" in notice.text
    assert configuration.topics[0].upsert_keys is None


def test_envelopes_of_debezium_need_a_key(tmp_path):
    text = MINIMAL.replace("      kafka-topic", "      decode: debezium\n      kafka-topic")
    with pytest.raises(ConfigurationError, match="decode: json to append the envelopes"):
        load(tmp_path, text).check_supported()
    load(tmp_path, text + UPSERT.format(enabled="true")).check_supported()


def test_key_columns_are_refused_unless_the_file_says_that_it_appends(tmp_path):
    text = MINIMAL + "        key-columns: [id]\n"
    with pytest.raises(ConfigurationError, match="key-columns without enable-upsert"):
        load(tmp_path, text).check_supported()
    configuration = load(tmp_path, MINIMAL + UPSERT.format(enabled="false"))
    configuration.check_supported()
    assert any("key-columns: not used" in notice.text for notice in configuration.notices)


S3A = """\
  spark:
    spark.hadoop.fs.s3a.endpoint: "minio:9000"
    spark.hadoop.fs.s3a.connection.ssl.enabled: false
    spark.hadoop.fs.s3a.access.key: key
    spark.hadoop.fs.s3a.secret.key: hunter2
    spark.hadoop.fs.s3a.path.style.access: true
    spark.hadoop.fs.s3a.impl: org.apache.hadoop.fs.s3a.S3AFileSystem
    spark.executor.memory: 1g
  topics:
"""


def test_s3a_settings_of_spark_say_where_the_store_is(tmp_path):
    environment = {"AWS_ENDPOINT_URL": "http://env", "AWS_REGION": "eu-west-1"}
    configuration = load(tmp_path, MINIMAL.replace("  topics:\n", S3A), environment=environment)
    assert configuration.connector.storage.storage_options() == {
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "AWS_ALLOW_HTTP": "true",
    }
    assert configuration.connector.spark.conf() == {"spark.executor.memory": "1g"}
    *texts, clear = [notice.text for notice in configuration.notices]
    assert "s3a.secret.key: a plaintext secret" in clear
    assert "pipeline.yaml:5: connector.spark.spark.hadoop.fs.s3a.endpoint: used as " in texts[0]
    assert "s3a.impl: not used" in texts[-1]
    assert len(texts) == 6
    assert "hunter2" not in "".join(texts)


def test_the_storage_section_goes_before_s3a_settings(tmp_path):
    text = MINIMAL.replace("  topics:\n", "  storage: {endpoint: 'https://own'}\n" + S3A)
    options = load(tmp_path, text).connector.storage.storage_options()
    assert options["AWS_ENDPOINT_URL"] == "https://own"
    assert options["AWS_ACCESS_KEY_ID"] == "key"


def test_what_stands_beside_delta_sparks_classes_stays():
    conf = {
        "spark.sql.extensions": "com.example.One, io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.executor.memory": "1g",
    }
    assert without_delta_spark(conf) == {
        "spark.sql.extensions": "com.example.One",
        "spark.executor.memory": "1g",
    }


def test_delta_sparks_settings_are_dropped_with_a_notice(tmp_path):
    text = MINIMAL.replace(
        "  topics:",
        "  spark:\n    master: local[1]\n"
        "    spark.sql.extensions: io.delta.sql.DeltaSparkSessionExtension\n  topics:",
    )
    configuration = load(tmp_path, text)
    assert configuration.connector.spark.master == "local[1]"
    assert "isn't needed" in configuration.notices[0].text
