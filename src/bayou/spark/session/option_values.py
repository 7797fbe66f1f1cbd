"""Values of options, which Spark hands over as texts."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.errors import ArgumentError

__all__ = ["boolean_option", "integer_option", "path_option", "whole_number"]

_NO_PATH = (
    "The format 'delta' got no path. Read with spark.read.format('delta').load(path) and write "
    "with df.write.format('delta').save(path): Spark passes no options, and so no path, to a "
    "Python data source for tables of its catalog (saveAsTable, insertInto, CREATE TABLE ... USING "
    "delta, spark.table). After bayou.spark.enable(spark) saveAsTable and insertInto write to the "
    "table's location (not under Spark Connect, where it can't be seen); a temporary view over a "
    "DataFrame gives a table a name anywhere."
)


def path_option(given: Mapping[str, str]) -> str:
    """The option `path`. Arguments as of `integer_option`.

    Raises:
        ArgumentError: there is none, or several.
    """
    if "paths" in given:
        raise ArgumentError(
            f"load() got several paths, {given['paths']}; the format 'delta' reads one table at a "
            "time. Load each and unite them with unionByName.",
            argument="path",
        )
    path = given.get("path", "").strip()
    if not path:
        raise ArgumentError(_NO_PATH, argument="path")
    return path


def integer_option(given: Mapping[str, str], name: str) -> int | None:
    """A whole number from 1 on; None where the option isn't there.

    Args:
        given: options by their names in lower case.
        name: as users write it.

    Raises:
        ArgumentError: another text.
    """
    value = given.get(name.lower())
    return None if value is None else whole_number(name, value, 1)


def whole_number(name: str, text: str, least: int) -> int:
    """The number that an option's text is.

    Raises:
        ArgumentError: another text, or less than `least`.
    """
    try:
        value = int(text.strip())
    except ValueError:
        value = least - 1
    if value < least:
        raise ArgumentError(
            f"{name} is {text!r}; it must be a whole number, at least {least}.", argument=name
        )
    return value


def boolean_option(given: Mapping[str, str], name: str) -> bool:
    """Whether an option is true; false where it isn't there. Arguments as of `integer_option`.

    Raises:
        ArgumentError: a text that is neither.
    """
    text = given.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise ArgumentError(f"{name} is {text!r}; it must be true or false.", argument=name)
    return text == "true"
