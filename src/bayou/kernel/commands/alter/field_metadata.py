"""What stands in a column's metadata: comments and defaults, and how history describes a column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.errors import BayouError, SchemaError, UnsupportedFeatureError
from bayou.kernel.commands.alter.schema_paths import ColumnPath, path_text
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.log.table_state import TableState
from bayou.protocol import features
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from bayou.protocol.type_changes import TYPE_CHANGES_KEY

__all__ = ["check_default", "described"]


def described(
    path: ColumnPath, field: StructField, *, with_type_changes: bool = False
) -> dict[str, object]:
    """A column as it stands in operation parameters."""
    metadata: dict[str, Any] = {
        key: value
        for key, value in field.metadata.items()
        if with_type_changes or key != TYPE_CHANGES_KEY
    }
    return {
        "name": path_text((*path[:-1], field.name)),
        "type": _type_name(field.data_type),
        "nullable": field.nullable,
        "metadata": metadata,
    }


def check_default(
    engine: Engine, state: TableState, column: str, data_type: DataType, text: str
) -> None:
    """Check that a text can be a column's default: it gives one value, whatever the row.

    Raises:
        UnsupportedFeatureError: the table lacks the feature.
        SchemaError: it isn't an expression, names a column, or gives another type.
    """
    if features.ALLOW_COLUMN_DEFAULTS not in features.writer_features(state.protocol):
        raise UnsupportedFeatureError(
            f"Column {column!r} of {state.path} can't have a default: the table lacks the feature "
            "allowColumnDefaults, which writers then must know. Add it first: "
            "alter.add_feature('allowColumnDefaults').",
            table=state.path,
            features=[features.ALLOW_COLUMN_DEFAULTS],
        )
    row = pa.RecordBatch.from_arrays([pa.nulls(1)], ["row"])
    try:
        expression = parse_expression(text)
        named = [".".join(path) for path in referenced_columns(expression)]
        if named:
            raise SchemaError(
                f"The default ({text}) of column {column!r} of {state.path} names the column "
                f"{named[0]!r}; a default is the same for every row.",
                table=state.path,
                column=column,
            )
        engine.expressions.evaluator(StructType(), expression, data_type).eval(row)
    except SchemaError:
        raise
    except BayouError as error:
        raise SchemaError(
            f"The default ({text}) of column {column!r} of {state.path} can't be used: {error}",
            table=state.path,
            column=column,
        ) from error


def _type_name(data_type: DataType) -> str:
    match data_type:
        case StructType():
            return "struct"
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case _:
            return str(data_type)
