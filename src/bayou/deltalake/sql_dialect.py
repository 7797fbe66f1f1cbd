"""Conversion of SQL from DataFusion's dialect, which deltalake accepts, to Spark's dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayou.protocol.sql import quote_identifier, string_literal

_QUOTED = re.compile(r"""'(?:[^']|'')*'|`(?:[^`]|``)*`|"(?:[^"]|"")*\"""")


def spark_sql(sql: Any) -> Any:
    r"""Convert an SQL string from DataFusion's to Spark's dialect.

    Values of other types, such as filter tuples, are returned unchanged.

    In DataFusion's dialect, `"` quotes a name, and `''` is the only escape in a string. In Spark's
    dialect, `"` quotes a string, and `\` starts an escape.
    """
    return _QUOTED.sub(lambda match: _spark_token(match.group()), sql) if _is_sql(sql) else sql


def spark_assignments(updates: Any) -> Any:
    """Convert the column names and SQL values of a mapping to Spark's dialect.

    If `updates` isn't a mapping, it is returned unchanged.
    """
    if not isinstance(updates, Mapping):
        return updates
    return {spark_sql(name): spark_sql(value) for name, value in updates.items()}


def _is_sql(value: object) -> bool:
    return isinstance(value, str)


def _spark_token(token: str) -> str:
    if token[0] == '"':
        return quote_identifier(token[1:-1].replace('""', '"'))
    return string_literal(token[1:-1].replace("''", "'")) if token[0] == "'" else token
