"""Lazy imports: a module is imported when one of its names is first used."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


class LazyModule:
    """Stands for a module, and imports it when one of its names is first used.

    Examples:
        >>> pc: Any = LazyModule("pyarrow.compute")
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value


def lazy_getattr(
    package: str, modules: Mapping[str, str], replacements: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """Return a `__getattr__` (PEP 562) for a package whose names are defined in other modules.

    Args:
        modules: a mapping from each name of the package to the module that defines this name.
        replacements: a mapping from names that the package lacks to text for the error message,
            which says what to use instead.
    """

    def __getattr__(name: str) -> object:  # noqa: N807  # the package assigns it to this name
        if name in modules:
            return getattr(importlib.import_module(modules[name]), name)
        use = (replacements or {}).get(name)
        hint = f". Use {use}." if use else ""
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)

    return __getattr__


def public_dir(names: list[str]) -> Callable[[], list[str]]:
    """Return a `__dir__` (PEP 562) that lists the public names of a package."""

    def __dir__() -> list[str]:  # noqa: N807  # the package assigns it to this name
        return sorted(names)

    return __dir__
