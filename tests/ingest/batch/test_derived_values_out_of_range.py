"""Records whose derived values are too large, and become dead letters."""

from __future__ import annotations

import pytest

from support.processed_pipelines import reasons, rows


@pytest.mark.parametrize("destination", ["", "        partition-columns: [at]\n"])
@pytest.mark.parametrize(
    "expression",
    [
        "timestamp_seconds(seconds)",
        "CAST(seconds AS TIMESTAMP)",
        "CAST(timestamp_seconds(seconds) AS DATE)",
        "CASE WHEN id = 2 THEN timestamp_seconds(seconds) ELSE timestamp_millis(seconds) END",
    ],
)
def test_a_derived_time_that_is_no_date_of_python_makes_a_dead_letter(
    processed, expression, destination
):
    schema = {"properties": {"id": {"type": "integer"}, "seconds": {"type": "integer"}}}
    pipeline = processed(f'columns: {{at: "{expression}"}}', schema=schema)
    text = pipeline.file.read_text()
    path = "        table-path: lake/events\n"
    pipeline.file.write_text(text.replace(path, path + destination))
    pipeline.produce(
        {"id": 1, "seconds": 1704448800},
        {"id": 2, "seconds": 1704448800000},
        {"id": 3},
        {"id": 4, "seconds": -1704448800},
    )
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (3, 1)
    (reason,) = reasons(pipeline)
    assert reason == "processing.columns.at: the result is outside of the years 1 to 9999"
    assert [row[0] for row in rows(pipeline, "id", "at")] == [1, 3, 4]


@pytest.mark.parametrize(
    "expression", ["space(size)", "repeat(name, size)", "lpad(name, size)", "rpad(name, size, 'x')"]
)
def test_a_derived_string_of_too_many_characters_makes_a_dead_letter(processed, expression):
    kinds = {"id": "integer", "name": "string", "size": "integer"}
    schema = {"properties": {name: {"type": kind} for name, kind in kinds.items()}}
    derived = expression.replace("size", "CAST(size AS INT)")
    pipeline = processed(f'columns: {{text: "{derived}"}}', schema=schema)
    pipeline.produce(*({"id": n, "name": "a", "size": n} for n in (1, 2**31 - 1, 2)))
    report = pipeline.take_in()
    assert (report.rows, report.dead_letters) == (2, 1)
    (reason,) = reasons(pipeline)
    assert reason.startswith("processing.columns.text: ")
    assert "the limit is 16,777,216" in reason
    assert [(n, len(text)) for n, text in rows(pipeline, "id", "text")] == [(1, 1), (2, 2)]
