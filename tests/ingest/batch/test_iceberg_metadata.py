"""Batches write Iceberg metadata if `table-properties` ask for it."""

from __future__ import annotations

from pathlib import Path

from bayou.kernel.transaction.background_hooks import BackgroundHooks
from support.iceberg_tables import assert_equal_formats, iceberg_rows

PROPERTIES = """\
          table-properties:
            delta.enableIcebergCompatV2: true
            delta.universalFormat.enabledFormats: iceberg
"""


def test_batches_write_iceberg_metadata(small_pipeline):
    small_pipeline.more = PROPERTIES
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1, "name": "a"})
    small_pipeline.take_in()
    small_pipeline.produce({"id": 2, "name": "b"})
    small_pipeline.take_in()
    path = Path(small_pipeline.path)
    assert_equal_formats(path)
    assert [row["id"] for row in iceberg_rows(path)] == [1, 2]


def test_batches_do_not_wait_for_the_conversion(small_pipeline):
    small_pipeline.more = PROPERTIES
    small_pipeline.write_file()
    with BackgroundHooks():
        for number in range(3):
            small_pipeline.produce({"id": number, "name": "a"})
            small_pipeline.take_in()
    assert small_pipeline.table.iceberg.lag() == 0
    assert_equal_formats(Path(small_pipeline.path))
