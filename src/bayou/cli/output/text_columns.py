"""Converts Arrow columns to fields of CSV and tab-separated lines, one string for each value.

Values are written as in JSON (`bayou.api.rows.json_text`), without the quotes of JSON strings.
"""

from __future__ import annotations

import pyarrow as pa

from bayou.api.rows.json_text import Column, column_text, replaced
from bayou.cli.output.control_characters import escape_tsv
from bayou.kernel.arrow.compute import pc

_NEEDS_CSV_QUOTES = r'[",\r\n]'
_NEEDS_TSV_ESCAPE = r"[\\\x00-\x1f\x7f]|\xc2[\x80-\x9f]"  # RE2 matches the bytes of UTF-8


def csv_fields(column: Column) -> Column:
    """Return each value as a field of a CSV file: quoted if needed.

    A null is an empty field; an empty string is a pair of quotes.
    """
    text = column_text(column)
    quoted = pc.or_(
        pc.match_substring_regex(text, _NEEDS_CSV_QUOTES), pc.equal(pc.binary_length(text), 0)
    )
    doubled = pc.replace_substring(text, '"', '""')
    return pc.fill_null(
        pc.if_else(quoted, pc.binary_join_element_wise('"', doubled, '"', ""), text), ""
    )


def tsv_fields(column: Column) -> Column:
    r"""Return each value as a tab-separated field; a null is an empty field.

    Control characters are escaped as `\t`, `\n`, `\r` or `\xNN`, backslashes as `\\`.
    """
    text = column_text(column)
    escaped = pc.match_substring_regex(pc.cast(text, pa.binary()), _NEEDS_TSV_ESCAPE)
    return pc.fill_null(replaced(text, escaped, escape_tsv), "")
