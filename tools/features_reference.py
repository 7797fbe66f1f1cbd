"""Generates the reference page of table features from `bayou.protocol.features`."""

from __future__ import annotations

from collections.abc import Iterator

from bayou.protocol.features import FEATURES, TABLE_FEATURES_WRITER_VERSION, TableFeature

__all__ = ["page"]

_KINDS = {"reader_writer": "readers and writers", "writer": "writers"}


def page() -> str:
    """Return the content of the page."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Table features\n\n"
    yield (
        "Table features that this version supports. Reading (or writing) a table that uses an "
        "unsupported feature is an\nerror that names the feature; a table that lists the feature "
        "without using it, according to its metadata, can\nbe read and written. Unknown features "
        "are errors for writers, and for readers if they are reader features.\n\n"
    )
    yield "| Feature | Required of | Implied by versions | Read | Write |\n"
    yield "|---|---|---|---|---|\n"
    features = sorted(FEATURES.values(), key=lambda f: f.name.lower())
    for feature in features:
        yield (
            f"| `{feature.name}` | {_KINDS[feature.kind]} | {_versions(feature)} | "
            f"{'yes' if feature.read else 'no'} | {'yes' if feature.write else 'no'} |\n"
        )
    yield "\n## Reasons\n\n"
    yield "Why a feature isn't supported, and what to do with a table that uses it:\n\n"
    yield "| Feature | Reason |\n|---|---|\n"
    for feature in features:
        if feature.reason:
            yield f"| `{feature.name}` | {feature.reason} |\n"
    yield "\n## Statistics of geospatial columns\n\n"
    yield (
        "The statistics of `geometry` and `geography` columns have null counts and no bounding "
        "boxes, in the Delta log and in\nIceberg metadata. delta-spark 4.4.0 writes the same. "
        "Filters with `IS NULL` and `IS NOT NULL` skip files; other filters on these\ncolumns read "
        "all files.\n"
    )


def _versions(feature: TableFeature) -> str:
    if feature.min_writer >= TABLE_FEATURES_WRITER_VERSION:
        return "none"
    if feature.kind == "writer":
        return f"writer {feature.min_writer}"
    return f"reader {feature.min_reader}, writer {feature.min_writer}"
