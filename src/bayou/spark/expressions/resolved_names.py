"""Names in a Column that stand for columns of one DataFrame."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column

from bayou.spark.jvm.classes import java_class

__all__ = ["resolved_in"]


def resolved_in(frame: Any, column: Any) -> Any:
    """A Column that means in whatever is made of a DataFrame what it means in that.

    Args:
        frame: of a classic session.
        column: may name columns by names that others have, too, elsewhere.

    Raises:
        AnalysisException: it names what the DataFrame hasn't got.
    """
    chosen = frame.select(column.alias("resolved"))
    analyzed = chosen._jdf.queryExecution().analyzed()  # noqa: SLF001  # published nowhere
    resolved = analyzed.expressions().apply(0).child()
    jvm = frame.sparkSession._jvm  # noqa: SLF001  # as above
    return Column(java_class(jvm, "org.apache.spark.sql.classic.ExpressionUtils").column(resolved))
