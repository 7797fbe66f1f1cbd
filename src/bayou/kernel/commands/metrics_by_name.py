"""Access to the metrics of commands by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class MetricsByName:
    """Base class of metrics that support `metrics["num_deleted_rows"]` and `dict(metrics)`.

    The names in a table's history can be used, too: `metrics["numDeletedRows"]`.
    """

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        attribute = _WORD.sub("_", name).lower()
        if attribute not in self.keys():  # not a mapping
            raise KeyError(name)
        return getattr(self, attribute)

    def keys(self) -> list[str]:
        """Return the names of the metrics."""
        return [field.name for field in fields(self)]  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())
