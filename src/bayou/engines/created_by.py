"""What a Parquet file's writer tells of its statistics."""

from __future__ import annotations

__all__ = ["counts_nan"]


def counts_nan(created_by: str | None) -> bool:
    """Whether the writer takes NaN for the largest number, so that another maximum excludes it.

    parquet-mr does, which Spark writes with; Arrow's writer, and whoever isn't known, may leave NaN
    out of the bounds.
    """
    return created_by is not None and created_by.startswith("parquet-mr")
