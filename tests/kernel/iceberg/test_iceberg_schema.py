from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.errors import UniversalFormatError
from support.iceberg_tables import write


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a.b", pa.array([{"b": 1}])),
        ("a.element", pa.array([[1]])),
        ("a.element.b", pa.array([[{"b": 1}]])),
        ("a.value", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))),
    ],
)
def test_a_column_with_the_path_of_a_nested_field_is_named(
    path: Path, configuration: dict[str, str], name: str, values: pa.Array
) -> None:
    write(path, {name: pa.array([1]), "a": values}, configuration=configuration)
    with pytest.raises(UniversalFormatError, match=f"distinguish the column '{name}' from"):
        bayou.table(path).iceberg.sync()
