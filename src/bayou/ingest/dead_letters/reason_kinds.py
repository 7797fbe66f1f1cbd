"""Groups the reasons of dead letters into a few kinds for metrics.

A kind may name a field, but contains no value of a record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

OTHER = "other"
_MAX_KINDS = 10
_MAX_LENGTH = 80

_FIELD = r"field (?P<field>'(?:[^'\\]|\\.)*')"
_KINDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        (r"not (valid|readable) JSON", "not valid JSON"),
        (r"not a JSON object", "not a JSON object"),
        (r"the record has no value", "no value"),
        (_FIELD + r": .* doesn't fit its type (?P<type>[\w<>,() ]+)$", "{field} isn't {type}"),
        (_FIELD + r": .* would lose digits", "{field} would lose digits"),
        (rf"schema: {_FIELD}", "{field} violates the schema"),
        (r"schema: ", "violates the schema"),
        (r"unknown field ", "unknown field"),
        (r"\d+ new fields", "too many new fields"),
        (_FIELD, "{field} is invalid"),
        (r"the Kafka key: ", "invalid Kafka key"),
        (
            r"destination\.route-by: the value .* max-tables \(\d+\) is reached",
            "max-tables is reached",
        ),
        (r"destination\.route-by: the value ", "the value of route-by has no table"),
        (r"(?P<field>destination\.route-by): ", "{field} fails"),
        (r"(?P<field>processing\.[\w.-]+): ", "{field} fails"),
    )
)


def reason_kind(reason: str) -> str:
    """Return the kind of a reason. A kind may name a field, but contains no value of the record."""
    for pattern, kind in _KINDS:
        match = pattern.match(reason)
        if match is not None:
            return kind.format(**match.groupdict())[:_MAX_LENGTH]
    return OTHER


def count_kinds(counts: Mapping[str, int]) -> dict[str, int]:
    """Sum the counts of reasons by kind.

    The `_MAX_KINDS` most frequent kinds are returned. All other kinds become `other`.
    """
    kinds: Counter[str] = Counter()
    for reason, count in counts.items():
        kinds[reason_kind(reason)] += count
    shown = dict(kinds.most_common(_MAX_KINDS))
    rest = kinds.total() - sum(shown.values())
    return shown | ({OTHER: shown.get(OTHER, 0) + rest} if rest else {})
