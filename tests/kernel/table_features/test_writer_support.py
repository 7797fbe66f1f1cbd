"""What a table asks of its writers that isn't supported is refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.errors import UnsupportedFeatureError

FORMATS = "delta.universalFormat.enabledFormats"
ROWS = pa.table({"id": [1]})


@pytest.mark.parametrize("formats", ["hudi"])
def test_metadata_of_other_formats_is_refused_by_name(tmp_path, formats):
    path = str(tmp_path / "t")
    with pytest.raises(UnsupportedFeatureError, match=formats) as caught:
        bayou.write(path, ROWS, configuration={FORMATS: formats})
    assert caught.value.features == (f"universalFormat ({formats})",)
    bayou.write(path, ROWS)
    with pytest.raises(UnsupportedFeatureError, match=formats):
        bayou.table(path).alter.set_table_properties({FORMATS: formats})
    assert bayou.table(path).snapshot().version == 0


def test_a_table_that_others_keep_in_another_format_is_read_and_written_once_that_ends(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, ROWS)
    log = tmp_path / "t" / "_delta_log"
    text = (log / f"{0:020d}.json").read_text()
    told = text.replace('"configuration":{', f'"configuration":{{"{FORMATS}":"hudi"')
    assert told != text
    (log / f"{0:020d}.json").write_text(told)
    (log / f"{0:020d}.crc").unlink(missing_ok=True)
    table = bayou.table(path)
    assert table.to_arrow() == ROWS
    with pytest.raises(UnsupportedFeatureError, match="hudi"):
        bayou.write(path, ROWS)
    table.vacuum(dry_run=True)
    table.alter.unset_table_properties(FORMATS)
    bayou.write(path, ROWS)
    assert table.to_arrow().num_rows == 2
