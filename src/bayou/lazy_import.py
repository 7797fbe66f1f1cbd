"""What a package offers is loaded when it is asked for: an import of the package costs nothing."""

import importlib
from collections.abc import Callable, Mapping


def loader(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package (PEP 562) whose names stand in other modules.

    `modules` has for each name the module, whole, that holds it. A name that isn't there is an
    `AttributeError`, as for any module.
    """

    def __getattr__(name: str) -> object:  # noqa: N807  # what the package binds it to
        if name in modules:
            return getattr(importlib.import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    return __getattr__
