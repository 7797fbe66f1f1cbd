"""`map_in_arrow`: PySpark's `mapInArrow` for columns of any name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

_Function: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: Any, function: _Function, schema: str) -> Any:
    """Call `mapInArrow` of a DataFrame.

    PySpark's method fails if a column's name has a dot or a backtick. In this case, the columns are
    renamed for the call, and the function gets batches with the original names.
    """
    names = tuple(frame.columns)
    if not any(sign in name for name in names for sign in ".`"):
        return frame.mapInArrow(function, schema)
    renamed = frame.toDF(*(f"column{number}" for number in range(len(names))))
    return renamed.mapInArrow(_WithNames(function, names), schema)


@dataclass(frozen=True, slots=True)
class _WithNames:
    function: _Function
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(batch.rename_columns(list(self.names)) for batch in batches)
