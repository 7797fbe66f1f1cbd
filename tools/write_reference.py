"""Generates docs/reference from the docstrings of the public modules.

usage: write_reference.py

The pages of the configuration, Spark settings, expressions and table features are generated from
their definitions. `tools/check_docs.py` checks that the pages are up to date.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import configuration_reference
import expressions_reference
import features_reference
import settings_reference

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
MODULES = (
    "bayou",
    "bayou.errors",
    "bayou.kernel",
    "bayou.kernel.engine",
    "bayou.kernel.expressions.model",
    "bayou.engines",
    "bayou.ingest",
    "bayou.spark",
    "bayou.spark.kafka",
    "bayou.testing",
)

_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note):")
_ITEM = re.compile(r"(?P<names>[\w*][\w*., ]*?): (?P<text>.*)")


def pages() -> dict[Path, str]:
    """Return the content of every page by its file."""
    written = {FOLDER / f"{name}.md": "".join(_page(name)) for name in MODULES}
    return written | {
        FOLDER / "configuration.md": configuration_reference.page(),
        FOLDER / "expressions.md": expressions_reference.page(),
        FOLDER / "features.md": features_reference.page(),
        FOLDER / "settings.md": settings_reference.page(),
    }


def _page(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    yield f"# {name}\n\n"
    if module.__doc__:
        yield _markdown(module.__doc__)
    for member in getattr(module, "__all__", None) or _defined_in(module):
        yield from _member(module, member)


def _defined_in(module: ModuleType) -> Iterator[str]:
    """Yield the public classes and functions of a module without `__all__`, in definition order."""
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__:
            yield name


def _member(module: ModuleType, name: str) -> Iterator[str]:
    value = getattr(module, name)
    if inspect.isclass(value):
        yield from _class(name, value)
    elif callable(value):
        yield f"## {name}\n\n{_signature(name, value)}{_markdown(value.__doc__)}"
    elif isinstance(value, ModuleType):
        yield f"## {name}\n\n{_markdown(value.__doc__)}"


def _class(name: str, value: type) -> Iterator[str]:
    bases = [base.__name__ for base in value.__bases__ if base.__name__ not in _PLAIN_BASES]
    suffix = f"({', '.join(bases)})" if bases else ""
    yield f"## {name}\n\n```text\nclass {name}{suffix}\n```\n\n{_markdown(_own_doc(value))}"
    for attribute, member in vars(value).items():
        if attribute.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"### {name}.{attribute}\n\n{_markdown(member.__doc__)}"
        elif isinstance(member, classmethod | staticmethod):
            function = member.__func__
            yield f"### {name}.{attribute}\n\n{_signature(attribute, function)}"
            yield _markdown(function.__doc__)
        elif inspect.isfunction(member):
            yield f"### {name}.{attribute}\n\n{_signature(attribute, member)}"
            yield _markdown(member.__doc__)


_PLAIN_BASES = {"object", "Exception", "Protocol", "Struct", "Generic", "Enum", "StrEnum"}


def _own_doc(value: type) -> str | None:
    """Return a class's docstring; None if it has none or Python generated it from the fields."""
    doc = vars(value).get("__doc__")
    return None if doc is None or doc.startswith(f"{value.__name__}(") else doc


def _signature(name: str, function: object) -> str:
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    visible = [p for p in signature.parameters.values() if p.name not in {"self", "cls"}]
    parameters = [str(p).replace("'", "") for p in _with_markers(visible)]
    result = signature.return_annotation
    returns = "" if result is inspect.Signature.empty else f" -> {_plain(result)}"
    text = f"{name}({', '.join(parameters)}){returns}"
    if len(text) > 96:
        text = f"{name}(\n    " + ",\n    ".join(parameters) + f",\n){returns}"
    return f"```text\n{text}\n```\n\n"


def _with_markers(parameters: list[inspect.Parameter]) -> Iterator[object]:
    """Yield the parameters of a signature, including bare `*` and `/`."""
    starred = False
    for number, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        yield parameter
        following = parameters[number + 1 : number + 2]
        if parameter.kind is parameter.POSITIONAL_ONLY and not (
            following and following[0].kind is parameter.POSITIONAL_ONLY
        ):
            yield "/"


def _plain(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _markdown(doc: str | None) -> str:
    """Convert a docstring in Google form to Markdown; indented text becomes a code block."""
    if not doc:
        return ""
    lines: list[str] = []
    in_section = False
    for line in inspect.cleandoc(doc).splitlines():
        section = _SECTION.fullmatch(line)
        if section is not None:
            in_section = True
            lines += [f"**{section.group(1)}**", ""]
        elif in_section and line.startswith("    "):
            item = _ITEM.fullmatch(line.strip())
            if item is not None and not line.startswith("     "):
                lines.append(f"- `{item['names']}`: {item['text']}")
            else:
                lines.append(f"  {line.strip()}" if line.startswith("     ") else line.strip())
        else:
            in_section = in_section and not line
            lines.append(line)
    return "\n".join(lines) + "\n\n"


def main() -> int:
    """Write the pages, and delete pages of removed modules; return the exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = pages()
    for path in FOLDER.glob("bayou*.md"):
        if path not in written:
            path.unlink()
    for path, text in written.items():
        path.write_text(text.rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
