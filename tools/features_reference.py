"""The reference page of table features, out of `bayou.protocol.features`."""

from __future__ import annotations

from collections.abc import Iterator

from bayou.protocol.features import FEATURES, TABLE_FEATURES_WRITER_VERSION, TableFeature

__all__ = ["page"]

_KINDS = {"reader_writer": "readers and writers", "writer": "writers"}


def page() -> str:
    """The page's text."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Table features\n\n"
    yield (
        "What a table's protocol may ask, and what of it this version does. A table that uses a "
        "feature that isn't\nread (or written) is refused by the feature's name; one that lists it "
        "and doesn't use it, as far as its\nmetadata shows, is not. Features of other names are "
        "refused: by writers always, by readers where readers\nmust know them.\n\n"
    )
    yield "| Feature | Asks something of | Implied by versions | Read | Written |\n"
    yield "|---|---|---|---|---|\n"
    for feature in sorted(FEATURES.values(), key=lambda f: f.name.lower()):
        yield (
            f"| `{feature.name}` | {_KINDS[feature.kind]} | {_versions(feature)} | "
            f"{'yes' if feature.read else 'refused'} | {'yes' if feature.write else 'refused'} |\n"
        )


def _versions(feature: TableFeature) -> str:
    if feature.min_writer >= TABLE_FEATURES_WRITER_VERSION:
        return "none"
    if feature.kind == "writer":
        return f"writer {feature.min_writer}"
    return f"reader {feature.min_reader}, writer {feature.min_writer}"
