"""Records that are made to break what reads them; the others are rows all the same."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("deep", "refused"), [(60, False), (99, False), (100, True), (100_000, True)]
)
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_new_field_of_brackets_in_brackets(small_pipeline, deep, refused, opening, closing):
    small_pipeline.evolves = True
    small_pipeline.write_file()
    poison = b'{"id": 1, "x": ' + opening * deep + b"1" + closing * deep + b"}"
    small_pipeline.produce({"id": 0}, poison, {"id": 2})
    report = small_pipeline.take_in()
    assert (report.rows, report.dead_letters) == ((2, 1) if refused else (3, 0))
    rows = {row["id"]: row for row in small_pipeline.table.to_arrow().to_pylist()}
    assert set(rows) == ({0, 2} if refused else {0, 1, 2})
    if refused:
        (letter,) = small_pipeline.dead_letters.to_arrow().to_pylist()
        assert letter["value"] == poison
        assert letter["reason"] == "nested too deeply: more than 100 levels"
    else:
        assert "1" in str(rows[1]["x"])
