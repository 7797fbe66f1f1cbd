"""`map_in_arrow`: PySpark's `mapInArrow` for DataFrames with any column names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

_Function: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: Any, function: _Function, schema: str) -> Any:
    """Call `DataFrame.mapInArrow`; column names may contain dots and backticks.

    PySpark's method fails for such names. Therefore columns are renamed before the call, and the
    function gets batches with the original names.
    """
    names = tuple(frame.columns)
    if not any(character in name for name in names for character in ".`"):
        return frame.mapInArrow(function, schema)
    renamed = frame.toDF(*(f"column{number}" for number in range(len(names))))
    return renamed.mapInArrow(_WithNames(function, names), schema)


@dataclass(frozen=True, slots=True)
class _WithNames:
    function: _Function
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(batch.rename_columns(list(self.names)) for batch in batches)
