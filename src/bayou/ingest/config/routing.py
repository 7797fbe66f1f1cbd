"""Settings of `route-by`, which splits a topic into tables by the value of an expression."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from bayou.ingest.config.base_section import Section, property_text
from bayou.ingest.config.processing import check_expression, parsed_expression
from bayou.kernel.expressions.model import Expression

VALUE = "{value}"
"""Placeholder in `route-by.table-path` and `route-by.table-name`.

For each value of the expression, it is replaced by the `value_name` of the value.
"""

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_]{0,63}\Z")
_HASHED = re.compile(r"_[0-9a-f]{8}\Z")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_MAX_READABLE = 40


def value_name(value: str, *, plain: bool = True) -> str:
    """Return the name of a value, which replaces `{value}` in a path or a table name.

    The name has at most 64 characters: lowercase letters, digits and underscores. A value that
    already has this form, and doesn't end with `_` and 8 hex digits, is used unchanged. Other
    values are converted to this form, and `_` and a hash are appended: 8 hex digits of the value's
    SHA-256. Names therefore differ even in a catalog or a file system that ignores case.

    Args:
        plain: if False, the hash is always appended.
    """
    if plain and _PLAIN.match(value) and not _HASHED.search(value):
        return value
    readable = _NOT_IN_NAMES.sub("_", value.lower())[:_MAX_READABLE].strip("_") or "value"
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{readable}_{digest}"


def value_fingerprint(value: str) -> int:
    """Return a positive hash of a value, to detect two values with the same `value_name`."""
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[8:16], "big") >> 1 or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """A table to which `route-by` routes records.

    Attributes:
        path: the table's path.
        name: the table's name in a catalog.
        value_name: the name that replaces `{value}` in the path; None if `route-by.tables` lists
            the path.
        fingerprint: the `value_fingerprint` of the value whose records are in the table; 0 if
            `route-by.tables` lists the path. A listed table can have the records of several values.
    """

    path: str
    name: str
    value_name: str | None = None
    fingerprint: int = 0


class RouteTableConfig(Section):
    """The table for one value in `route-by.tables`.

    In the YAML file, this is a section with `table-path`, or a string that is the path.
    """

    table_path: str = Field(
        min_length=1,
        description="Path of the table, as in destination.table-path. Several values can have the "
        "same table.",
    )
    table_name: str | None = Field(
        default=None,
        description="Name of the table in connector.catalog. Default: the last part of table-path.",
    )

    @model_validator(mode="before")
    @classmethod
    def _convert_path(cls, value: object) -> object:
        return {"table-path": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}

    @property
    def name(self) -> str:
        return self.table_name or _last_part(self.table_path)


class RouteByConfig(Section):
    """Several tables for one topic: the value of an expression selects the table of a record."""

    expression: str = Field(
        description="SQL expression on the fields of a record, such as event_type or "
        "lower(place.country). It can read the same columns as processing.columns, and derived "
        "columns. Its result is converted to a string, the record's value."
    )
    table_path: str | None = Field(
        default=None,
        description="Path of the table of a value that isn't in tables. {value} is replaced by the "
        "value's name: the value if it consists of lowercase letters, digits and underscores, "
        "otherwise a similar name with a hash.",
    )
    table_name: str | None = Field(
        default=None,
        description="Name of this table in connector.catalog, with {value}. Default: the last part "
        "of table-path.",
    )
    tables: dict[str, RouteTableConfig] = Field(
        default={},
        description="The tables of values: for each value, a table-path, or a section with "
        "table-path and table-name.",
    )
    max_tables: PositiveInt = Field(
        default=100,
        description="Maximum number of tables that table-path defines. Records with further values "
        "become dead letters.",
    )
    on_unmatched: Literal["default-table", "dead-letter"] = Field(
        default="default-table",
        description="What happens to a record whose value has no table, if table-path isn't set: "
        "default-table writes it to the table of destination.table-path, dead-letter makes it a "
        "dead letter.",
    )
    on_null: Literal["default-table", "dead-letter"] = Field(
        default="default-table",
        description="What happens to a record whose value is NULL, as with on-unmatched.",
    )
    accept_restore: dict[str, NonNegativeInt] = Field(
        default={},
        description="For tables of route-by, by table name: the version of the last RESTORE that "
        "you accept, as in accept-restore of the topic.",
    )

    accept_deleted: tuple[str, ...] = Field(
        default=(),
        description="Names of tables of route-by that were deleted on purpose. New records of "
        "their values create them again.",
    )

    @field_validator("expression")
    @classmethod
    def _check_expression(cls, value: str) -> str:
        check_expression(value)
        return value

    @field_validator("tables", mode="before")
    @classmethod
    def _convert_values(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {property_text(key): table for key, table in value.items()}

    @model_validator(mode="after")
    def _check_tables(self) -> RouteByConfig:
        if self.table_path is None and not self.tables:
            raise ValueError(
                f"no tables are defined; set table-path with {VALUE}, or list values in tables"
            )
        for key, template in (("table-path", self.table_path), ("table-name", self.table_name)):
            if template is not None and VALUE not in template:
                raise ValueError(f"{key}: {template!r} doesn't contain {VALUE}; add it")
        if self.table_name is not None and self.table_path is None:
            raise ValueError(
                "table-name needs table-path; set table-path, or write a table-name for each table "
                "in tables"
            )
        names: dict[str, str] = {}
        for table in self.tables.values():
            if names.setdefault(table.table_path, table.name) != table.name:
                raise ValueError(
                    f"tables: {table.table_path} has the names {names[table.table_path]} and "
                    f"{table.name}; write one"
                )
        return self

    @property
    def parsed(self) -> Expression:
        """The parsed `expression`; derived columns aren't expanded."""
        return parsed_expression(self.expression)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of `tables`, then `table-path` if it is set."""
        template = () if self.table_path is None else (self.table_path,)
        return (*dict.fromkeys(t.table_path for t in self.tables.values()), *template)

    def table(self, value: str, reserved: Collection[str] = ()) -> RouteTable | None:
        """Return the table for a record's value; None if no table is configured for the value.

        Args:
            reserved: values to whose names `value_name` always appends a hash. Without the hash,
                the path of such a value's table would be the path of another table, such as the
                dead letter table.
        """
        listed = self.tables.get(value)
        if listed is not None:
            return RouteTable(path=listed.table_path, name=listed.name)
        if self.table_path is None:
            return None
        name = value_name(value, plain=value not in reserved)
        return replace(self._named(name), fingerprint=value_fingerprint(value))

    def find(self, name: str) -> RouteTable | None:
        """Return the table whose path or table name is `name`; None if there is none."""
        for listed in self.tables.values():
            if name in (listed.name, listed.table_path):
                return RouteTable(path=listed.table_path, name=listed.name)
        if self.table_path is None:
            return None
        templates = (self._name_template, self.table_path)
        for template in (t for t in templates if VALUE in t):
            match = pattern_of(template).fullmatch(name)
            if match is not None:
                return self._named(match[1])
        return None

    def at(self, path: str) -> RouteTable:
        """Return the table at a path.

        If the path is neither in `tables` nor matches `table-path`, the table's name is the last
        part of the path.
        """
        for listed in self.tables.values():
            if listed.table_path == path:
                return RouteTable(path=path, name=listed.name)
        match = None
        if self.table_path is not None:
            match = pattern_of(self.table_path).fullmatch(path)
        return (
            RouteTable(path=path, name=_last_part(path)) if match is None else self._named(match[1])
        )

    def with_paths(self, change: Callable[[str], str], name: Callable[[str], str]) -> RouteByConfig:
        """Return a copy with changed paths and table names.

        Args:
            change: function that returns the new path for a path.
            name: function that returns the new name for a table name.
        """
        tables = {
            value: table.model_copy(
                update={"table_path": change(table.table_path), "table_name": name(table.name)}
            )
            for value, table in self.tables.items()
        }
        update: dict[str, Any] = {"tables": tables}
        if self.table_path is not None:
            update["table_name"] = name(self._name_template)
            update["table_path"] = change(self.table_path)
        return self.model_copy(update=update)

    @property
    def _name_template(self) -> str:
        assert self.table_path is not None
        return self.table_name or _last_part(self.table_path)

    @property
    def names(self) -> tuple[str, ...]:
        """The table names of `tables`, then the table name of `table-path` if it is set."""
        template = () if self.table_path is None else (self._name_template,)
        return (*dict.fromkeys(t.name for t in self.tables.values()), *template)

    def _named(self, name: str) -> RouteTable:
        assert self.table_path is not None
        return RouteTable(
            path=self.table_path.replace(VALUE, name),
            name=self._name_template.replace(VALUE, name),
            value_name=name,
        )


def pattern_of(template: str) -> re.Pattern[str]:
    """Return a regular expression for the paths or names that a template can produce.

    Each path or name has a `value_name` in place of `{value}`. The first group matches this name.
    """
    first, *others = map(re.escape, template.split(VALUE))
    if not others:
        return re.compile(first)
    start, *rest = others
    return re.compile(
        f"{first}([a-z0-9][a-z0-9_]*){start}{''.join(f'[a-z0-9_]+{r}' for r in rest)}"
    )


def _last_part(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]
