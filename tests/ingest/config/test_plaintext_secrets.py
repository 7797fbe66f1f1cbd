"""Secrets in clear are said, without being repeated."""

from __future__ import annotations

import re
import traceback

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration

CONFIG = """\
connector:
  kafka:
    bootstrap-servers: "h:1"
    security: {{protocol: SASL_SSL, mechanism: PLAIN, username: bob, password: "{password}"}}
    ssl.key.password: "{key}"
  storage: {{access-key: AKIA, secret-key: "{secret}"}}
  monitoring: {{token: "{token}"}}
  topics:
    events: {{kafka-topic: events, destination: {{table-path: lake/events}}}}
"""
NAMES = ("password", "key", "secret", "token")
KEYS = (
    "connector.kafka.security.password",
    "connector.kafka.ssl.key.password",
    "connector.storage.secret-key",
    "connector.monitoring.token",
)


def notices(tmp_path, config=None, **values):
    file = tmp_path / "p.yaml"
    file.write_text(CONFIG.format(**values) if config is None else config)
    environment = {"PASSWORD": "hunter2"}
    return load_configuration(file, environment=environment).notices


@pytest.mark.parametrize(("name", "key"), list(zip(NAMES, KEYS, strict=True)))
def test_a_secret_in_clear_is_said_with_its_line_and_not_repeated(tmp_path, name, key):
    values = {**dict.fromkeys(NAMES, "${PASSWORD}"), name: "s3cr3t-in-clear"}
    (notice,) = notices(tmp_path, **values)
    assert notice.key == key
    assert "a plaintext secret" in notice.text
    assert "s3cr3t-in-clear" not in notice.text
    assert notice.line is not None


@pytest.mark.parametrize("text", ["12345", "${NAME:-hunter2}", "$${hunter2}"])
def test_numbers_and_defaults_are_in_clear_too(tmp_path, text):
    config = CONFIG.format(**{**dict.fromkeys(NAMES, "${PASSWORD}"), "key": text})
    for written in (config, config.replace(f'"{text}"', text)):
        (notice,) = notices(tmp_path, config=written)
        assert notice.key == "connector.kafka.ssl.key.password"
        assert "hunter2" not in notice.text


@pytest.mark.parametrize("name", ["sasl.jaas.config", "sasl.oauthbearer.config"])
def test_properties_that_hold_a_secret_among_others_are_said(tmp_path, name):
    config = CONFIG.format(**dict.fromkeys(NAMES, "${PASSWORD}"))
    (notice,) = notices(
        tmp_path,
        config=config.replace("ssl.key.password", name).replace(
            '"${PASSWORD}"\n  storage', "a=b\n  storage"
        ),
    )
    assert notice.key == f"connector.kafka.{name}"


def test_the_mask_of_a_password_is_no_password(tmp_path):
    masks = "{kafka-topic: events, masks: {user.password: hash, token: drop}, destination"
    config = CONFIG.format(**dict.fromkeys(NAMES, "${PASSWORD}"))
    assert (
        notices(tmp_path, config=config.replace("{kafka-topic: events, destination", masks)) == ()
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://bob:s3cr3t@registry:8081/v1",
        "bob:s3cr3t@registry:8081",  # without a scheme
        "http:/bob:s3cr3t@registry:8081",
        "http://bob:s3cr3t/x@registry:8081",  # a slash in the password
        "bob:s3cr3t",
    ],
)
def test_the_url_of_a_registry_which_messages_name_holds_no_password(tmp_path, url):
    config = CONFIG.format(**dict.fromkeys(NAMES, "${PASSWORD}"))
    config += f'  schema-registry: {{url: "{url}"}}\n'
    with pytest.raises(ConfigurationError, match=r"p\.yaml:10: .*url: the URL ") as caught:
        notices(tmp_path, config=config)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "path",
    [
        "abfss://c@account.dfs.core.windows.net/t?sv=1&sig=s3cr3t",
        "s3://b/t?X-Amz-Signature=s3cr3t",
        "s3://bob:s3cr3t@b/t",
    ],
)
def test_a_path_of_a_table_holds_no_secret(tmp_path, path):
    config = CONFIG.format(**dict.fromkeys(NAMES, "${PASSWORD}"))
    config = config.replace("table-path: lake/events", f'table-path: "{path}"')
    assert path in config
    with pytest.raises(ConfigurationError, match=r"p\.yaml:9: .*table-path: ") as caught:
        notices(tmp_path, config=config)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_a_schema_file_is_no_url_whose_password_would_be_shown(tmp_path):
    config = CONFIG.format(**dict.fromkeys(NAMES, "${PASSWORD}"))
    url = "http://bob:s3cr3t@host/schema.json"
    config = config.replace("destination:", f'schema-file: "{url}", destination:')
    with pytest.raises(ConfigurationError, match=r"schema-file: a URL isn't supported") as caught:
        notices(tmp_path, config=config)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_secrets_from_files_are_fine(tmp_path):
    (tmp_path / "secret").write_text("hunter3\n")
    values = {**dict.fromkeys(NAMES, "${PASSWORD}"), "password": "${file:secret}"}
    assert notices(tmp_path, **values) == ()
    configuration = load_configuration(tmp_path / "p.yaml", environment={"PASSWORD": "hunter2"})
    properties = configuration.connector.kafka.client_properties()
    assert properties["sasl.password"] == "hunter3"


def test_a_file_of_a_secret_that_is_not_there_is_said_with_its_line(tmp_path):
    with pytest.raises(ConfigurationError, match=r"p\.yaml:4: .*password: the file .*nope"):
        notices(tmp_path, **{**dict.fromkeys(NAMES, "${PASSWORD}"), "password": "${file:nope}"})
    with pytest.raises(ConfigurationError, match=r"can't be read: Is a directory"):
        notices(tmp_path, **{**dict.fromkeys(NAMES, "${PASSWORD}"), "password": "${file:.}"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${file:}", "needs a path and can't have a default; write ${file:PATH}"),
        (
            "${file:nope:-d}",
            "'${file:nope:-d}' needs a path and can't have a default; write ${file:PATH}",
        ),
        ("${file:~nobody-here/x}", "user '~nobody-here' has no home folder; write the full path"),
    ],
)
def test_a_file_of_a_secret_that_is_none_is_said_with_its_line(tmp_path, text, said):
    with pytest.raises(ConfigurationError, match=rf"p\.yaml:4: .*password: .*{re.escape(said)}"):
        notices(tmp_path, **{**dict.fromkeys(NAMES, "${PASSWORD}"), "password": text})


def test_secrets_from_the_environment_are_fine(tmp_path):
    assert notices(tmp_path, **dict.fromkeys(NAMES, "${PASSWORD}")) == ()


def test_the_argument_of_a_token_provider_is_not_shown(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n"
        "  kafka:\n"
        "    bootstrap-servers: 'h:1'\n"
        "    security:\n"
        "      protocol: SASL_SSL\n"
        "      mechanism: OAUTHBEARER\n"
        "      oauth: {token-provider: 'own:token', config: hunter2}\n"
        "  topics: {events: {kafka-topic: events, destination: {table-path: lake/events}}}\n"
    )
    assert "hunter2" not in repr(load_configuration(file, environment={}))


def test_a_configuration_is_shown_without_secrets(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n"
        "  kafka: {bootstrap-servers: 'h:1', sasl.password: 12345678}\n"
        "  storage: {endpoint: 'http://bob:hunter2@h:9000'}\n"
        "  spark:\n"
        "    spark.ssl.keyPassword: hunter2\n"
        "    spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net: hunter2\n"
        "    spark.ssl.keyStorePassword: 12345678\n"
        "    spark.app.password: 1234567.8\n"
        "    spark.app.name: shown\n"
        "  topics: {events: {kafka-topic: events, destination: {table-path: lake/events}}}\n"
    )
    text = repr(load_configuration(file, environment={}))
    assert "hunter2" not in text
    assert "1234567" not in text
    assert "spark.app.name='shown'" in text
