"""The catalog of a pipeline's tables: addresses, names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration

EXAMPLE = Path(__file__).parents[4] / "examples" / "local" / "catalog.yaml"

TOPICS = """\
  kafka: {bootstrap-servers: "localhost:9092"}
  topics:
    a: {kafka-topic: a, destination: {table-path: lake/a}}
    b: {kafka-topic: b, destination: {table-path: lake/b, table-name: NAME}}
"""


def load(tmp_path, catalog, *, name="b", spark="{}"):
    file = tmp_path / "p.yaml"
    topics = TOPICS.replace("NAME", name)
    file.write_text(f"connector:\n  catalog: {catalog}\n  spark: {spark}\n{topics}")
    configuration = load_configuration(file, environment={})
    configuration.check_runnable()
    return configuration


def test_tables_have_names_in_the_catalogs_database(tmp_path):
    catalog = load(tmp_path, "{uris: 'thrift://h:9083'}").connector.catalog
    assert catalog.qualified_name("b") == "`default`.`b`"
    assert catalog.qualified_name("shop.b") == "`shop`.`b`"
    assert catalog.spark_conf() == {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": "thrift://h:9083",
    }
    other = load(tmp_path, "{uris: 'thrift://h:9083', database: shop}").connector.catalog
    assert other.qualified_name("order") == "`shop`.`order`"


def test_the_example_registers_its_table():
    configuration = load_configuration(EXAMPLE, environment={})
    configuration.check_runnable()
    catalog, topic = configuration.connector.catalog, configuration.topics[0]
    assert catalog.qualified_name(topic.config.destination.name) == "`shop`.`user_events`"


def test_the_address_may_be_in_the_spark_conf(tmp_path):
    spark = "{spark.hadoop.hive.metastore.uris: 'thrift://h:1'}"
    catalog = load(tmp_path, "{type: hive}", spark=spark).connector.catalog
    assert catalog.spark_conf() == {"spark.sql.catalogImplementation": "hive"}


def test_names_that_end_with_the_run_are_told(tmp_path):
    (notice,) = load(tmp_path, "{type: session}").notices
    assert "its entries are lost when the run ends" in notice.text
    spark = "{spark.sql.catalogImplementation: hive}"
    assert load(tmp_path, "{type: session}", spark=spark).notices == ()


@pytest.mark.parametrize(
    ("catalog", "options", "problem"),
    [
        ("{type: hive}", {}, "uris is missing"),
        ("{uris: 'http://h:1'}", {}, "must have the form thrift://HOST:PORT"),
        ("{uris: 'thrift://h'}", {}, "must have the form thrift://HOST:PORT"),
        ("{type: session, uris: 'thrift://h:1'}", {}, "uris is only used with type: hive"),
        ("{uris: 'thrift://h:1', database: 'a-b'}", {}, "isn't a valid name; use letters"),
        ("{uris: 'thrift://h:1'}", {"name": "user-events"}, "'user-events' can't be the name"),
        ("{uris: 'thrift://h:1'}", {"name": "a.b.c"}, "'a.b.c' can't be the name"),
        ("{uris: 'thrift://h:1'}", {"name": "A"}, "topics.a and topics.b have the same table"),
        (
            "{uris: 'thrift://h:1'}",
            {"spark": "{spark.hadoop.hive.metastore.uris: 'thrift://h:2'}"},
            "uris differs from hive.metastore.uris in connector.spark",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, catalog, options, problem):
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, catalog, **options)
    assert problem in str(caught.value)
