"""Expressions that read fields that no record has contained yet."""

from __future__ import annotations

import pytest

from bayou.errors import PipelineError
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from support.processed_pipelines import proof, rows


@pytest.mark.parametrize(
    "condition",
    [
        "tags IS NULL OR array_contains(tags, kind) OR kind = level",
        "active OR a = b OR a IS NULL",
        "a = level OR array_contains(b, a) OR array_contains(c, level) OR c IS NULL",
        "array_contains(tags, kinds[0].name) OR tags IS NULL",
        "(a = 1 AND size(a) > 0) OR a IS NULL",
    ],
)
def test_types_of_several_fields_that_fit_together_are_found(processed, condition):
    pipeline = processed(f'where: "{condition}"', schema=None, evolves=True)
    pipeline.produce({"id": 1}, {"id": 2})
    report = pipeline.take_in()
    assert (report.rows, report.filtered) == (2, 0)
    assert proof(pipeline).holds


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("tags[0].price * 2", 3.0),
        ("coalesce(tags[0].price, 0)", 1.5),
        ("coalesce(tags[0].price, IF(a = b AND c = d, 0, 1))", 1.5),
    ],
)
def test_a_derived_column_has_no_type_until_a_record_has_its_fields(processed, expression, value):
    pipeline = processed(f'columns: {{price: "{expression}"}}', schema=None, evolves=True)
    pipeline.produce({"id": 1})
    pipeline.take_in()
    assert "price" not in pipeline.table.snapshot().schema.names
    pipeline.produce({"id": 2, "tags": [{"price": 1.5}]})
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (1, 0)
    assert rows(pipeline, "id", "price") == [(1, None), (2, value)]


@pytest.mark.parametrize(
    ("lines", "setting"),
    [
        ('where: "tags IS NULL OR size(id) > 0"', "processing.where"),
        ('where: "tags IS NULL OR id"', "processing.where"),
        ('columns: {n: "coalesce(size(tags), size(id))"}', "processing.columns.n"),
    ],
)
def test_an_error_in_a_part_whose_fields_have_columns_is_reported(processed, lines, setting):
    pipeline = processed(lines, schema=None, evolves=True)
    pipeline.produce({"id": 1})
    with pytest.raises(PipelineError, match=f"{setting}: .*(array or map|isn't a condition)"):
        pipeline.take_in()


def test_a_frozen_table_ignores_an_object_that_lacks_the_field_of_an_expression(processed):
    pipeline = processed('columns: {city: "CAST(place.city AS STRING)"}', schema=None)
    text = pipeline.file.read_text().replace("          enable-schema-evolution: false\n", "")
    pipeline.file.write_text(
        text.replace("      destination:", "      schema-policy: freeze\n      destination:")
    )
    pipeline.produce({"id": 1})
    pipeline.take_in()
    places = [{"zip": 7}, {"city": "Houma"}, {"zip": 7, "city": None}, "Houma"]
    pipeline.produce(*({"id": n, "place": place} for n, place in enumerate(places, start=2)))
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters, report.ignored) == (2, 2, ("place",))
    assert rows(pipeline, "id", "city") == [(1, None), (2, None), (4, None)]
    assert replay_dead_letters(pipeline.configuration, pipeline.topic).refused == 2
