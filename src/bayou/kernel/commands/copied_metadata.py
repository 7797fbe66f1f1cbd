"""Metadata of one version, or table, taken over by another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from bayou.kernel.table_features.column_mapping import physical_name
from bayou.kernel.transaction.commit_rebase import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from bayou.protocol.column_rules import IdentityColumn, identity_of, with_high_water_mark
from bayou.protocol.properties import IN_COMMIT_TIMESTAMPS
from bayou.protocol.schema import StructField, StructType

__all__ = ["clustering_domain", "with_enablement_of", "with_marks_of"]


_ENABLEMENT = frozenset({ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP})


def with_marks_of(schema: StructType, other: StructType) -> StructType:
    """A schema whose identity columns have given out what they have in another schema, too."""
    marks = {
        physical_name(f): found.high_water_mark
        for f in other
        if (found := identity_of(f)) is not None and found.high_water_mark is not None
    }
    return replace(schema, fields=tuple(_marked(f, marks) for f in schema)) if marks else schema


def with_enablement_of(properties: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Properties that name the commit at which in-commit timestamps began as others do.

    It is the log's, which is one for all versions: commits between two versions may lack the
    timestamps that the older version's properties promise. Where one of the two has none they
    begin anew, or end, and the properties stay.
    """
    if not all(IN_COMMIT_TIMESTAMPS.read(p) for p in (properties, others)):
        return dict(properties)
    return {
        **{k: v for k, v in properties.items() if k not in _ENABLEMENT},
        **{k: v for k, v in others.items() if k in _ENABLEMENT},
    }


def clustering_domain(configuration: str | None) -> str:
    """The domain `delta.clustering` as it is, or without columns where there is none."""
    if configuration is not None:
        return configuration
    empty = {"clusteringColumns": [], "domainName": "delta.clustering"}
    return msgspec.json.encode(empty).decode()


def _marked(field: StructField, marks: Mapping[str, int]) -> StructField:
    mark = marks.get(physical_name(field))
    column = identity_of(field)
    if column is None or mark is None or not _is_further(column, mark):
        return field
    return with_high_water_mark(field, mark)


def _is_further(column: IdentityColumn, mark: int) -> bool:
    current = column.high_water_mark
    return current is None or (mark - current) * column.step > 0
