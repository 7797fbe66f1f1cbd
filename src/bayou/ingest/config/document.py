"""Reads a YAML file as dicts, lists and scalars, and records the line of each key.

`${VAR}`, `${VAR:-default}` and `${file:PATH}` are replaced in strings. `${file:PATH}` is the
content of a file, such as a mounted secret, without the trailing newline. `$${` is an escaped `${`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError

from bayou.errors import ConfigurationError

KeyPath: TypeAlias = tuple[str | int, ...]

FREE_SECTIONS: tuple[KeyPath, ...] = (("connector", "kafka"), ("connector", "spark"))
"""Sections whose unknown keys are properties of librdkafka or Spark, which may contain dots."""

_VARIABLE = re.compile(
    r"\$(?P<literal>\$\{)|\$\{file:(?P<file>[^}]*)\}|\$\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\}"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The values of a YAML file (dicts, lists, scalars) and the line of each key path.

    Attributes:
        values: the values of the file, with environment variables and overrides such as `--set`
            applied.
        lines: the line of each key path in the file, counted from 1.
        elsewhere: for each key path that is set outside the file, the name of its source, such as
            `--set KEY`.
        literal_values: the key paths of strings and numbers whose value is in the file itself.
            Strings with `${file:PATH}`, or with a `${VAR}` without a default, aren't included.
    """

    file: str
    values: dict[str, Any]
    lines: Mapping[KeyPath, int]
    elsewhere: dict[KeyPath, str] = field(default_factory=dict)
    literal_values: frozenset[KeyPath] = frozenset()

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of a key, or the line of the nearest parent key that has a line."""
        for length in range(len(path), 0, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return None

    def where(self, path: KeyPath) -> str:
        """Return where a value was set, such as `pipeline.yaml:12` or `--set KEY`."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.elsewhere:
                return self.elsewhere[path[:length]]
        line = self.line_of(path)
        return self.file if line is None else f"{self.file}:{line}"

    def substituted(self, value: object, path: KeyPath, environment: Mapping[str, str]) -> Any:
        """Convert a result of `load_yaml` to dicts, lists and scalars, and substitute variables."""
        return _plain(value, path, self, environment)

    def error(self, message: str, path: KeyPath) -> ConfigurationError:
        """Return an error whose message starts with file, line and key."""
        line, where = self.line_of(path), self.where(path)
        key = show_key(path)
        shown = key and where != f"--set {key}"
        located = f"{where}: {key}: {message}" if shown else f"{where}: {message}"
        return ConfigurationError(located, file=self.file, line=line, key=key or None)


def show_key(path: KeyPath) -> str:
    """Format a key path: `("connector", "topics", "a", 0)` is `connector.topics.a[0]`."""
    key = ""
    for part in path:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            key += f".{part}" if key else part
    return key


def no_home(path: str) -> str:
    """Return the error message for a path such as `~nobody/x`: user `nobody` has no home folder."""
    return f"user {path.partition('/')[0]!r} has no home folder; write the full path"


class _Constructor(RoundTripConstructor):
    """A YAML constructor that reads dates as strings.

    Numbers have the attribute `written`, which is the text of the number in the file.
    """

    def construct_yaml_int(self, node: Any) -> Any:
        """Construct an integer. Its attribute `written` is the text of the integer in the file.

        The text retains leading zeros: an unquoted password can be `007`.
        """
        return _with_literal(super().construct_yaml_int(node), node)

    def construct_yaml_float(self, node: Any) -> Any:
        return _with_literal(super().construct_yaml_float(node), node)


def _with_literal(value: Any, node: Any) -> Any:
    with suppress(AttributeError):  # a plain `int` prints as its literal
        value.written = node.value
    return value


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", RoundTripConstructor.construct_scalar)
_Constructor.add_constructor("tag:yaml.org,2002:int", _Constructor.construct_yaml_int)
_Constructor.add_constructor("tag:yaml.org,2002:float", _Constructor.construct_yaml_float)


def load_yaml(text: str) -> Any:
    """Parse YAML to objects of ruamel.yaml, which contain the line number of each key.

    Raises:
        YAMLError: the text isn't valid YAML. The message contains no values, because they may be
            secrets.
    """
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # the warning quotes the lines
            return yaml.load(text)
    except MarkedYAMLError as error:
        error.problem = _without_values(error.problem or str(error))
        raise
    except YAMLError as error:
        raise YAMLError(_without_values(str(error))) from None
    except Exception as error:  # an invalid value of a tag raises various exceptions
        raise YAMLError(
            "a value doesn't match its YAML tag, such as !!int; correct the value or the tag"
        ) from error


def read_document(file: Path, environment: Mapping[str, str]) -> Document:
    """Read a file and substitute its variables."""
    name = str(file)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigurationError(f"{name}: the file doesn't exist", file=name) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name}: can't be read: {error}", file=name) from error
    try:
        loaded = load_yaml(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else int(mark.line) + 1
        where = name if line is None else f"{name}:{line}"
        raise ConfigurationError(
            f"{where}: not valid YAML: {error.problem}", file=name, line=line
        ) from None  # the cause quotes the line, which may contain a secret
    except YAMLError as error:
        raise ConfigurationError(f"{name}: not valid YAML: {error}", file=name) from None
    if not isinstance(loaded, CommentedMap):
        raise ConfigurationError(
            f"{name}: must be a YAML mapping with the top-level key 'connector'", file=name, line=1
        )
    lines: dict[KeyPath, int] = {}
    _collect_lines(loaded, (), lines)
    positions = Document(file=name, values={}, lines=lines)
    values = _plain(loaded, (), positions, environment)
    assert isinstance(values, dict)
    literals = frozenset(_literals(loaded, ()))
    return Document(file=name, values=values, lines=lines, literal_values=literals)


def _collect_lines(node: object, path: KeyPath, lines: dict[KeyPath, int]) -> None:
    if isinstance(node, CommentedMap):
        for key in node:
            below = (*path, str(key))
            lines[below] = _line_of_key(node, key)
            _collect_lines(node[key], below, lines)
    elif isinstance(node, CommentedSeq):
        for index, item in enumerate(node):
            below = (*path, index)
            lines[below] = _line_of_key(node, index)
            _collect_lines(item, below, lines)


def _line_of_key(node: CommentedMap | CommentedSeq, key: object) -> int:
    """Return the line number of a key in `node`, counted from 1.

    A key from a YAML merge (`<<: *x`) has the line of `node`.
    """
    known = node.lc.data or {}
    line: int = known[key][0] if key in known else node.lc.line
    return line + 1


def _literals(node: object, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(node, CommentedMap):
        for key in node:
            yield from _literals(node[key], (*path, str(key)))
    elif isinstance(node, str | int | float) and not isinstance(node, bool):
        text = str(node)
        if text and not any(_is_external(v) for v in _VARIABLE.finditer(text)):
            yield path


def _is_external(variable: re.Match[str]) -> bool:
    """Whether a `${...}` is `${file:PATH}`, or `${VAR}` without a default."""
    return variable["file"] is not None or bool(variable["name"] and not variable["default"])


def _plain(node: object, path: KeyPath, at: Document, environment: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        values: dict[str, Any] = {}
        for key, value in node.items():
            below = (*path, str(key))
            if str(key) in values:  # 1 and "1" are different keys in YAML
                raise at.error(f"duplicate key {str(key)!r}; remove one of them", below)
            values[str(key)] = _plain(value, below, at, environment)
        return values
    if isinstance(node, list):
        return [_plain(v, (*path, i), at, environment) for i, v in enumerate(node)]
    if isinstance(node, str):
        return _substitute(str(node), path, at, environment)
    if isinstance(node, bool) or node is None:
        return node
    if isinstance(node, TaggedScalar) and node.tag.value in _STRING_TAGS:
        return _substitute(str(node.value), path, at, environment)
    if not isinstance(node, int | float):
        raise at.error("'!' starts a YAML tag; quote a string that starts with '!'", path)
    if path[:2] in FREE_SECTIONS and (written := getattr(node, "written", None)) is not None:
        return str(written)  # a property of Kafka or Spark is a string
    return int(node) if isinstance(node, int) else float(node)


_STRING_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "merge", "value"))


def _substitute(text: str, path: KeyPath, at: Document, environment: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return "${"
        if match["file"] is not None:
            return _file_content(match["file"], path, at)
        name, default = match["name"], match["default"]
        if not _NAME.match(name):
            raise at.error(
                "${...} must be ${NAME} or ${NAME:-default}; write $${ for a literal ${",
                path,
            )
        variable = environment.get(name)
        if default is not None:
            return variable or default
        if variable is None:
            raise at.error(
                f"the environment variable {name} isn't set; set it, or write ${{{name}:-default}}",
                path,
            )
        return variable

    return _VARIABLE.sub(value, text) if "$" in text else text


def _file_content(name: str, path: KeyPath, at: Document) -> str:
    if not name.strip() or ":-" in name:
        raise at.error(
            f"'${{file:{name}}}' needs a path and can't have a default; write ${{file:PATH}}", path
        )
    try:
        file = Path(at.file).parent / Path(name).expanduser()
    except RuntimeError as error:
        raise at.error(no_home(name), path) from error
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError as error:
        raise at.error(f"the file {file} of ${{file:...}} doesn't exist", path) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
        raise at.error(f"the file {file} can't be read: {reason}", path) from error


def _without_values(text: str) -> str:
    """Return the first line of a YAML parser's message, without the quoted values.

    The values may be secrets.
    """
    line = text.strip().splitlines()[0] if text.strip() else "unreadable"
    if duplicate := _DUPLICATE.match(line):
        return f"duplicate key {duplicate[1]!r}; remove one of them"
    if line.startswith("found undefined alias"):
        return "an undefined alias (*name); quote a string that starts with *"
    return _QUOTED.sub("'...'", line)


_DUPLICATE = re.compile(r'found duplicate key "([^"]*)"')
_QUOTED = re.compile(r"(['\"])(?!<)[^'\"]{2,}.*\1")
"""Quoted strings in a message, except single characters and tokens such as `'<block end>'`."""
