"""Settings of a session that change how Spark reads SQL.

Bayou parses SQL in Spark's default grammar. `session_sql` rewrites a user's SQL to this grammar: it
substitutes variables (`${name}`), and replaces double quotes around names by backticks. The
rewritten SQL has the same meaning for Spark as the user's SQL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession

from bayou.errors import StatementError
from bayou.protocol.sql import quote_identifier, string_literal, tokenize
from bayou.spark.hooks.hooks import plain_sql
from bayou.spark.jvm.session import system_property
from bayou.spark.session.settings import conf_flag

_VARIABLE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}")
_SETTINGS = (None, "spark", "sparkconf", "hivevar", "hiveconf")


def session_sql(spark: Any, text: str) -> str:
    """Rewrite a user's SQL from the session's grammar to Spark's default grammar.

    Raises:
        StatementError: a variable refers to itself.
    """
    if "${" in text and conf_flag(spark, "spark.sql.variable.substitute", default=True):
        text = _substituted(spark, text, ())
    if '"' not in text or not _has_quoted_names(spark):
        return text
    sql_parts, at = [], 0
    for token in tokenize(text):
        if token.is_string and text[token.start] == '"':
            name = text[token.start + 1 : token.end - 1].replace('""', '"')
            sql_parts += [text[at : token.start], quote_identifier(name)]
            at = token.end
    return "".join((*sql_parts, text[at:]))


def session_literal(spark: Any, string: str) -> str:
    """Return a string as a SQL literal that the session and Bayou read in the same way."""
    if any(characters in string for characters in ("\\", "'", "${")) and conf_flag(
        spark, _RAW_STRINGS
    ):
        return f"CAST(X'{string.encode().hex()}' AS STRING)"
    # Spark substitutes `${name}`. The literal `$\{name}` is the same string, without substitution.
    return string_literal(string).replace("${", "$\\{")


def has_raw_strings(spark: Any, text: str) -> bool:
    r"""Whether the session and Bayou may read a string in the SQL, such as `'\d'`, differently.

    In Spark's default grammar, a backslash or a doubled quote in a string is an escape. Two of
    Spark's settings change this.
    """
    doubled = "''" in text
    if doubled and conf_flag(spark, _CONSECUTIVE_STRINGS):
        return True
    return ("\\" in text or doubled) and conf_flag(spark, _RAW_STRINGS)


def with_current_time(spark: Any, text: str, columns: Collection[str]) -> str:
    """Replace functions such as `current_date` in SQL by literals.

    Args:
        columns: names of columns. If one of them is `current_date` or `current_timestamp`, this
            name without parentheses is the column and isn't replaced.
    """
    sql_parts, at = [], 0
    literals: dict[str, str] = {}
    names = {name.upper() for name in columns}
    tokens = list(tokenize(text))
    for number, token in enumerate(tokens):
        name = token.text.upper()
        is_call = [t.text for t in tokens[number + 1 : number + 3]] == ["(", ")"]
        is_value = name in ("CURRENT_DATE", "CURRENT_TIMESTAMP") and name not in names
        if token.kind != "word" or name not in _CURRENT_TIME or not (is_call or is_value):
            continue
        literals = literals or _current_time(spark)
        sql_parts += [text[at : token.start], literals[_CURRENT_TIME[name]]]
        at = tokens[number + 2].end if is_call else token.end
    return "".join((*sql_parts, text[at:]))


_CURRENT_TIME = {
    "CURDATE": "DATE",
    "CURRENT_DATE": "DATE",
    "CURRENT_TIMESTAMP": "TIMESTAMP",
    "LOCALTIMESTAMP": "TIMESTAMP_NTZ",
    "NOW": "TIMESTAMP",
}
"""Functions of the current date and time, and the types of their values."""


def _current_time(spark: Any) -> dict[str, str]:
    """Return literals of the current date and time by type (DATE, TIMESTAMP and TIMESTAMP_NTZ).

    DATE and TIMESTAMP_NTZ are in the session's time zone.
    """
    time = "date_format(current_timestamp(), 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX')"
    local = "CAST(current_date() AS STRING), CAST(localtimestamp() AS STRING)"
    day, without_zone, now = plain_sql(spark, f"SELECT {local}, {time}").first()
    return {
        "DATE": f"DATE'{day}'",
        "TIMESTAMP": f"TIMESTAMP'{now}'",
        "TIMESTAMP_NTZ": f"TIMESTAMP_NTZ'{without_zone}'",
    }


_RAW_STRINGS = "spark.sql.parser.escapedStringLiterals"
_CONSECUTIVE_STRINGS = "spark.sql.legacy.consecutiveStringLiterals.enabled"


def _substituted(spark: Any, text: str, within: tuple[str, ...]) -> str:
    def value(match: re.Match[str]) -> str:
        prefix, name = match.groups()
        if match[0] in within:
            raise StatementError(
                f"SQL: the variable {match[0]} refers to itself. Change its value.",
                statement=text,
            )
        found = None
        if prefix in _SETTINGS:
            found = spark.conf.get(name, "")
        elif prefix == "env":
            found = os.environ.get(name)
        elif prefix == "system" and isinstance(spark, SparkSession):
            found = system_property(spark, name)
        return match[0] if found is None else _substituted(spark, found, (*within, match[0]))

    return _VARIABLE.sub(value, text)


def _has_quoted_names(spark: Any) -> bool:
    """Whether `"a"` in the session's SQL is a name. If not, it is a string."""
    setting = "spark.sql.ansi.doubleQuotedIdentifiers"
    return conf_flag(spark, setting) and conf_flag(spark, "spark.sql.ansi.enabled", default=True)
