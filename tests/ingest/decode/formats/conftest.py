from __future__ import annotations

import pytest

from bayou.ingest.decode.formats import schema_registry


@pytest.fixture(autouse=True)
def _nothing_known_of_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process knows of a registry it knows by its URL, and ports come again."""
    monkeypatch.setattr(schema_registry, "_KNOWN", {})
    monkeypatch.setattr(schema_registry, "_UNKNOWN", {})
    monkeypatch.setattr(schema_registry, "_CONNECTIONS", {})
