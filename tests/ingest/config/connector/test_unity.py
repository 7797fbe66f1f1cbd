"""Unity Catalog in a pipeline's configuration: address, token, names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration

EXAMPLE = Path(__file__).parents[4] / "examples" / "local" / "unity.yaml"

TOPICS = """\
  kafka: {bootstrap-servers: "localhost:9092"}
  topics:
    a: {kafka-topic: a, destination: {table-path: lake/a}}
    b: {kafka-topic: b, destination: {table-path: PATH, table-name: NAME}}
"""


def load(tmp_path, catalog, *, name="b", path="lake/b", environment=None):
    file = tmp_path / "p.yaml"
    topics = TOPICS.replace("NAME", name).replace("PATH", path)
    file.write_text(f"connector:\n  catalog: {catalog}\n{topics}")
    configuration = load_configuration(file, environment=environment or {})
    configuration.check_runnable()
    return configuration


def test_tables_have_names_in_the_catalog_and_schema(tmp_path):
    unity = "{unity: {uri: 'https://h:1', catalog: lake, schema: shop}}"
    catalog = load(tmp_path, unity).connector.catalog
    assert catalog.qualified_name("b") == "uc://lake.shop.b"
    assert catalog.qualified_name("web.b") == "uc://lake.web.b"
    assert catalog.qualified_name("other.web.b") == "uc://other.web.b"
    assert catalog.spark_conf() == {}
    assert catalog.unity.settings().api == "https://h:1/api/2.1/unity-catalog"


def test_the_example_registers_its_table(monkeypatch):
    configuration = load_configuration(EXAMPLE, environment={})
    configuration.check_runnable()
    catalog, topic = configuration.connector.catalog, configuration.topics[0]
    name = catalog.qualified_name(topic.config.destination.name)
    assert name == "uc://lake.shop.user_events"
    monkeypatch.setenv("UC_TOKEN", "token-of-the-environment")
    assert catalog.unity.settings().token == "token-of-the-environment"


def test_the_token_is_hidden_and_one_in_clear_is_reported(tmp_path):
    unity = "{unity: {uri: 'https://h', catalog: lake, token: TOKEN}}"
    configuration = load(tmp_path, unity.replace("TOKEN", "dapi-0123456789"))
    assert "dapi-0123456789" not in repr(configuration.connector)
    assert configuration.connector.catalog.unity.options()["UC_TOKEN"] == "dapi-0123456789"
    (notice,) = configuration.notices
    assert "a plaintext secret" in notice.text
    hidden = load(tmp_path, unity.replace("TOKEN", "'${T}'"), environment={"T": "dapi-0123456789"})
    assert hidden.notices == ()


def test_the_address_may_be_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("UC_URI", "http://h:8080/api/2.1/unity-catalog/")
    unity = load(tmp_path, "{unity: {catalog: lake}}").connector.catalog.unity
    assert unity.settings().uri == "http://h:8080"
    assert str(unity.table_name("b")) == "uc://lake.default.b"


@pytest.mark.parametrize(
    ("catalog", "options", "problem"),
    [
        ("{unity: {catalog: lake}}", {}, "unity.uri is missing; write the server's address"),
        ("{unity: {uri: 'ftp://h', catalog: l}}", {}, "the address must be a URL without a user"),
        ("{unity: {uri: 'https://u:p@h', catalog: l}}", {}, "must be a URL without a user"),
        ("{unity: {uri: 'https://h'}}", {}, "catalog"),
        ("{type: hive, unity: {uri: 'https://h', catalog: l}}", {}, "type can't be used with"),
        ("{database: d, unity: {uri: 'https://h', catalog: l}}", {}, "database can't be used"),
        ("{unity: {uri: 'https://h', catalog: l}}", {"name": "a b"}, "'a b' can't be the name"),
        ("{unity: {uri: 'https://h', catalog: l}}", {"name": "a.b.c.d"}, "'a.b.c.d' can't be"),
        ("{unity: {uri: 'https://h', catalog: l}}", {"name": "a"}, "have the same table"),
        (
            "{unity: {uri: 'https://h', catalog: l}}",
            {"path": "uc://l.s.t"},
            "A managed table can be used only with",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, catalog, options, problem, monkeypatch):
    monkeypatch.delenv("UC_URI", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, catalog, **options)
    assert problem in str(caught.value)
