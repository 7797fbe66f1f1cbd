"""The section `route-by`: names of values, and what is refused."""

from __future__ import annotations

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.config import load_configuration
from bayou.ingest.config.routing import RouteByConfig, value_name
from bayou.ingest.routing.routed_tables import layout_fields, reserved_names


def load(tmp_path, routes, *, path="lake/events", topics="", more="", connector=""):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'b:9092'}\n"
        f"{connector}  topics:\n    events:\n      kafka-topic: events\n"
        f"      destination:\n        table-path: '{path}'\n        route-by: {{{routes}}}\n"
        f"{more}{topics}"
    )
    return load_configuration(file, environment={})


def problem(tmp_path, routes, **more):
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, routes, **more)
    return raised.value.message


TEMPLATE = "expression: kind, table-path: 'lake/events_{value}'"


def test_a_plain_value_is_its_own_name():
    for value in ("click", "page_view", "2024", "a"):
        assert value_name(value) == value


def test_values_that_differ_have_names_that_differ_even_without_case():
    values = ["a/b", "a b", "a_b", "A_B", "a-b", "", " ", "..", ".", "é", "É", "e", "E", "日本"]
    values += ["_x", "x_", "x", "a" * 64, "a" * 65, "a" * 66, "a/b/../c", "\ud800", "\x00"]
    values += [value_name(value) for value in values]
    names = [value_name(value) for value in dict.fromkeys(values)]
    assert len({name.lower() for name in names}) == len(set(values))
    for name in names:
        assert name == name.lower()
        assert name.replace("_", "a").isascii()
        assert name.replace("_", "a").isalnum()
        assert len(name) <= 64
        assert not name.startswith("_")


def test_names_are_stable():
    assert value_name("a/b") == "a_b_c14cddc0"
    assert value_name("") == "value_e3b0c442"


def test_tables_are_found_by_value_name_and_path(tmp_path):
    routes = (
        "expression: kind, table-path: 'lake/e_{value}', table-name: 'web.e_{value}', "
        "tables: {order: lake/orders, 5: {table-path: lake/five, table-name: fifth}}"
    )
    configuration = load(tmp_path, routes)
    topic = configuration.topics[0]
    found = {v: topic.routes.table(v) for v in ("click", "order", "5")}
    assert {v: (t.path, t.name) for v, t in found.items()} == {
        "click": (f"{tmp_path}/lake/e_click", "web.e_click"),
        "order": (f"{tmp_path}/lake/orders", "orders"),
        "5": (f"{tmp_path}/lake/five", "fifth"),
    }
    assert configuration.find_table("web.e_view") == f"{tmp_path}/lake/e_view"
    assert configuration.find_table("fifth") == f"{tmp_path}/lake/five"
    assert configuration.find_table("web.e_View") is None
    assert configuration.find_table("events") == f"{tmp_path}/lake/events"
    routed = topic.routed(topic.routes.table("order"))
    assert (routed.table_path, routed.key) == (f"{tmp_path}/lake/orders", "events")
    assert routed.table_key == "events//orders"
    assert routed.routes is None


def test_a_table_is_found_by_its_path_if_all_values_have_the_same_table_name(tmp_path):
    routes = "expression: kind, table-path: 'lake/{value}/rows'"
    configuration = load(tmp_path, routes, path="lake/default")
    assert configuration.find_table("rows") is None
    path = f"{tmp_path}/lake/click/rows"
    assert configuration.find_table(path) == path


def test_a_listed_table_is_found_even_if_a_template_of_another_topic_matches_its_name(tmp_path):
    other = (
        "    web:\n      kafka-topic: web\n      destination:\n        table-path: lake/web\n"
        "        route-by: {expression: kind, table-path: 'web/{value}'}\n"
    )
    routes = "expression: kind, tables: {buy: lake/buys}"
    configuration = load(tmp_path, routes, topics=other)
    assert configuration.find_table("buys") == f"{tmp_path}/lake/buys"
    assert configuration.find_table("views") == f"{tmp_path}/web/views"


def test_a_value_never_gets_another_table_of_the_topic(tmp_path):
    routes = "expression: kind, table-path: 'lake/{value}', tables: {x: lake/buys}"
    topic = load(tmp_path, routes).topics[0]
    reserved = reserved_names(topic)
    assert reserved == {"events", "events_dead_letters", "events_migration", "buys"}
    for value in reserved:
        assert topic.routes.table(value, reserved).path != f"{tmp_path}/lake/{value}"


def test_the_fields_of_the_layout_are_those_that_derived_columns_read(tmp_path):
    more = (
        "        partition-columns: [hour, country, _kafka_topic]\n"
        "      event-time: at\n"
        "      processing: {columns: {hour: \"date_trunc('HOUR', at)\"}}\n"
    )
    assert layout_fields(load(tmp_path, TEMPLATE, more=more).topics[0]) == ("at", "country")


@pytest.mark.parametrize(
    ("routes", "more", "text"),
    [
        ("expression: kind", {}, "no tables are defined; set table-path with {value}"),
        ("table-path: 'a_{value}'", {}, "the key 'expression' is missing"),
        ("expression: 'kind +', table-path: 'a_{value}'", {}, "route-by.expression"),
        (
            "expression: _processed_at, table-path: 'a_{value}'",
            {},
            "the value of _processed_at changes when a batch is repeated",
        ),
        ("expression: kind, table-path: lake/x", {}, "'lake/x' doesn't contain {value}; add it"),
        (
            "expression: kind, table-path: 'a_{value}', table-name: x",
            {},
            "table-name: 'x' doesn't contain {value}",
        ),
        (
            "expression: kind, table-name: 'x_{value}', tables: {a: b}",
            {},
            "table-name needs table-path",
        ),
        (
            "expression: kind, tables: {a: {table-path: b, table-name: c}, d: b}",
            {},
            "tables: b has the names c and b; write one",
        ),
        ("expression: kind, tables: {a: lake/events}", {}, "is the default table"),
        ("expression: kind, tables: {a: lake/events_dead_letters}", {}, "the dead letter table"),
        ("expression: kind, table-path: 'lake/events/{value}'", {}, "are nested"),
        ("expression: kind, table-path: 'lake/{value}'", {"path": "lake/x/y"}, None),
        ("expression: kind, max-tables: 0, tables: {a: b}", {}, "must be more than 0"),
        ("expression: kind, on-null: drop, tables: {a: b}", {}, "must be 'default-table' or"),
        (
            "expression: kind, table-path: 'lake/{topic}_{value}'",
            {},
            "{topic} must be in all paths",
        ),
        (
            TEMPLATE,
            {"more": "        key-columns: [id]\n        delta-config: {enable-upsert: true}\n"},
            "route-by isn't possible with enable-upsert",
        ),
        (TEMPLATE, {"connector": "  migration: {enabled: true}\n"}, "can't be migrated"),
        (
            TEMPLATE,
            {"topics": "    other: {kafka-topic: o, destination: {table-path: lake/events_x}}\n"},
            "may be the table",
        ),
        (
            "expression: kind, table-path: 'lake/{value}/rows'",
            {"connector": "  catalog: {type: session}\n"},
            "all tables of table-path have the same name in the catalog, rows; write {value}",
        ),
        (
            "expression: kind, tables: {a: x/events}",
            {"connector": "  catalog: {type: session}\n"},
            "have the same table",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, routes, more, text):
    if text is None:
        load(tmp_path, routes, **more)
    else:
        message = problem(tmp_path, routes, **more)
        assert text in message
        assert "route-by" in message or "topics" in message


def test_settings_without_effect_are_told(tmp_path):
    notices = load(tmp_path, "expression: kind, tables: {a: b}, max-tables: 5").notices
    assert [n.text.split("route-by.")[1] for n in notices] == [
        "max-tables: not used without table-path: only the values in tables have a table"
    ]
    (notice,) = load(tmp_path, f"{TEMPLATE}, on-unmatched: dead-letter").notices
    assert (
        "on-unmatched: not used with table-path: it defines a table for each value" in notice.text
    )


def test_a_field_that_the_schema_file_lacks_is_refused(tmp_path):
    from bayou.ingest.schema.files import topic_schemas

    (tmp_path / "s.json").write_text('{"type": "object", "properties": {"id": {"type": "string"}}}')
    configuration = load(tmp_path, TEMPLATE, more="      schema-file: s.json\n")
    with pytest.raises(ConfigurationError, match=r"destination\.route-by: .*kind"):
        topic_schemas(configuration)


def test_each_topic_of_a_section_has_its_own_tables(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(
        "connector:\n  kafka: {bootstrap-servers: 'b:9092'}\n  topics:\n    all:\n"
        "      kafka-topics: [a.b, c]\n      destination:\n        table-path: 'lake/{topic}'\n"
        "        route-by: {expression: kind, table-path: 'lake/{topic}-{value}'}\n"
    )
    configuration = load_configuration(tmp_path / "pipeline.yaml", environment={})
    tables = [topic.routes.table("x") for topic in configuration.topics]
    assert [t.path for t in tables] == [f"{tmp_path}/lake/a.b-x", f"{tmp_path}/lake/c-x"]
    assert [t.name for t in tables] == ["a_b-x", "c-x"]


def test_a_route_needs_an_expression():
    with pytest.raises(ValueError, match="expression"):
        RouteByConfig.model_validate({"tables": {"a": "b"}})
