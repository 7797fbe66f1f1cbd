"""Generates the reference page of the pipeline's configuration from the pydantic models."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

from bayou.ingest.config import PipelineConfig

__all__ = ["page"]

Schema = Mapping[str, Any]

_HEAD = """# Configuration

A pipeline is configured by one YAML file; all keys are under `connector`. `NAME` stands for a name
that you choose. An unknown key is an error with a suggestion.

In strings, `${NAME}` is replaced by an environment variable, `${NAME:-default}` by the variable or
a default, and `${file:PATH}` by the content of a file without its final line break, such as a
mounted secret. PATH is relative to the YAML file. `$${` is a literal `${`.

"""


def page() -> str:
    """Return the content of the page."""
    schema = PipelineConfig.model_json_schema(by_alias=True)
    return _HEAD + "".join(_section(schema, schema, ())).rstrip() + "\n"


def _section(root: Schema, section: Schema, path: tuple[str, ...]) -> Iterator[str]:
    nested: list[tuple[Schema, tuple[str, ...]]] = []
    required = set(section.get("required", ()))
    rows = []
    for key, value in section.get("properties", {}).items():
        target = _target(root, value)
        if target is not None:
            names = (*path, key, "NAME") if "additionalProperties" in value else (*path, key)
            nested.append((target, names))
        else:
            default = "required" if key in required else _default(value)
            meaning = html.escape(value["description"], quote=False)
            rows.append(f"| `{key}` | {_type(value)} | {default} | {meaning} |\n")
    if rows:
        yield f"## {'.'.join(path)}\n\n{section.get('description', '')}\n\n"
        yield "| key | type | default | meaning |\n|---|---|---|---|\n"
        yield from rows
        yield "\n"
    for target, names in nested:
        yield from _section(root, target, names)


def _target(root: Schema, value: Schema) -> Schema | None:
    """Return the section that is the value of a key, or of the entries if it is a mapping.

    None if the value has no keys of its own.
    """
    entries = value.get("additionalProperties")
    options = [value, *value.get("anyOf", ()), *([entries] if isinstance(entries, dict) else ())]
    for option in options:
        if "$ref" in option:
            section: Schema = root["$defs"][option["$ref"].rsplit("/", 1)[-1]]
            # A section that can also be written as a string.
            alternatives = [o for o in section.get("anyOf", ()) if "properties" in o]
            return alternatives[0] if alternatives else section
    return None


def _type(value: Schema) -> str:
    options = [option for option in value.get("anyOf", [value]) if option.get("type") != "null"]
    return " or ".join(_plain_type(option) for option in options)


def _plain_type(option: Schema) -> str:
    if "const" in option:
        return f"`{option['const']}`"
    if "enum" in option:
        return ", ".join(f"`{choice}`" for choice in option["enum"])
    name = str(option.get("type", "any"))
    return "list" if name == "array" else name


def _default(value: Schema) -> str:
    default = value.get("default")
    return "-" if default in (None, []) else f"`{json.dumps(default)}`"
