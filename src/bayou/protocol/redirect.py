"""Redirects of a table to another table (delta-spark's preview features of table redirection).

Not in PROTOCOL.md. The table property of the feature contains JSON with the state of the redirect
and the location of the table to which it leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayou.protocol.json_decoding import decode_json

REDIRECT_READER_WRITER = "redirectReaderWriter-preview"
REDIRECT_WRITER_ONLY = "redirectWriterOnly-preview"
REDIRECT_FEATURES = (REDIRECT_READER_WRITER, REDIRECT_WRITER_ONLY)

_READY = "REDIRECT-READY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A redirect of a table.

    Attributes:
        feature: name of the table feature.
        state: `ENABLE-REDIRECT-IN-PROGRESS`, `REDIRECT-READY` or `DROP-REDIRECT-IN-PROGRESS`; empty
            if the property is malformed.
        destination: location of the other table; None if the property doesn't name it.
    """

    feature: str
    state: str
    destination: str | None

    @property
    def is_ready(self) -> bool:
        """Whether queries must use the other table; a malformed property counts as ready."""
        return self.state in (_READY, "")


def redirect_of(configuration: Mapping[str, str]) -> Redirect | None:
    """Return the redirect in a table's properties; None if there is none."""
    for feature in REDIRECT_FEATURES:
        value = configuration.get(f"delta.{feature}")
        if value is not None:
            return _parse(feature, value)
    return None


def _parse(feature: str, value: str) -> Redirect:
    redirect = _decode(value)
    spec = redirect.get("spec")
    if isinstance(spec, str):
        spec = _decode(spec)
    names = ("destPath", "redirectDest", "tablePath")
    paths = (spec.get(name) for name in names) if isinstance(spec, dict) else ()
    state = redirect.get("state")
    return Redirect(
        feature=feature,
        state=state if isinstance(state, str) else "",
        destination=next((path for path in paths if isinstance(path, str)), None),
    )


def _decode(value: str) -> dict[str, Any]:
    try:
        decoded = decode_json(value, object)
    except msgspec.DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
