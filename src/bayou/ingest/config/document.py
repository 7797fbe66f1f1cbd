"""A YAML file as plain values, with the line of every key.

`${VAR}`, `${VAR:-default}` and `${file:PATH}` (what a file holds, such as a mounted secret, without
the line's end) are replaced anywhere in a text; `$${` stands for `${`.
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

__all__ = [
    "FREE_SECTIONS",
    "Document",
    "KeyPath",
    "load_yaml",
    "no_home",
    "read_document",
    "show_key",
]

KeyPath: TypeAlias = tuple[str | int, ...]

FREE_SECTIONS: tuple[KeyPath, ...] = (("connector", "kafka"), ("connector", "spark"))
"""Sections whose other keys are dotted properties of somebody else."""

_VARIABLE = re.compile(
    r"\$(?P<literal>\$\{)|\$\{file:(?P<file>[^}]*)\}|\$\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\}"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Values of a YAML file (dicts, lists, scalars), and where each key path stands.

    Attributes:
        file: its name.
        values: what it says, and what was put in from elsewhere.
        lines: the line of each key path of the file, from 1.
        elsewhere: for key paths that were put in, in words where from.
        clear_texts: key paths of the file's texts and numbers whose value stands in the file.
    """

    file: str
    values: dict[str, Any]
    lines: Mapping[KeyPath, int]
    elsewhere: dict[KeyPath, str] = field(default_factory=dict)
    clear_texts: frozenset[KeyPath] = frozenset()

    def line_of(self, path: KeyPath) -> int | None:
        """Line of the key, or of the nearest key around it."""
        for length in range(len(path), 0, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return None

    def where(self, path: KeyPath) -> str:
        """`file:line`, or what else has said it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.elsewhere:
                return self.elsewhere[path[:length]]
        line = self.line_of(path)
        return self.file if line is None else f"{self.file}:{line}"

    def substituted(self, value: object, path: KeyPath, environment: Mapping[str, str]) -> Any:
        """A value that stands at a path, as plain values, with its variables filled in.

        Raises:
            ConfigurationError: a variable that isn't set.
        """
        return _plain(value, path, self, environment)

    def error(self, message: str, path: KeyPath) -> ConfigurationError:
        """An error that says file, line and key before the message."""
        line, where = self.line_of(path), self.where(path)
        key = show_key(path)
        text = f"{where}: {key}: {message}" if key else f"{where}: {message}"
        return ConfigurationError(text, file=self.file, line=line, key=key or None)


def show_key(path: KeyPath) -> str:
    """`("connector", "topics", "a", 0)` as `connector.topics.a[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def no_home(path: str) -> str:
    """What is wrong with a path such as `~nobody/x`."""
    return f"there is no home folder of {path.partition('/')[0]!r}; write the path in full"


class _Constructor(RoundTripConstructor):
    """Makes what looks like a date the text that it is, for no key wants one."""

    def construct_yaml_int(self, node: Any) -> Any:
        """A number that knows how it was written: a password may begin with a zero."""
        return _with_text(super().construct_yaml_int(node), node)

    def construct_yaml_float(self, node: Any) -> Any:
        """Likewise."""
        return _with_text(super().construct_yaml_float(node), node)


def _with_text(value: Any, node: Any) -> Any:
    with suppress(AttributeError):  # an `int` is written as it is shown
        value.written = node.value
    return value


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", RoundTripConstructor.construct_scalar)
_Constructor.add_constructor("tag:yaml.org,2002:int", _Constructor.construct_yaml_int)
_Constructor.add_constructor("tag:yaml.org,2002:float", _Constructor.construct_yaml_float)


def load_yaml(text: str) -> Any:
    """What a text of YAML says.

    Raises:
        YAMLError: it isn't YAML; the message quotes no value.
    """
    yaml = YAML(typ="rt")
    yaml.Constructor = _Constructor
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # it quotes the lines
            return yaml.load(text)
    except MarkedYAMLError as error:
        error.problem = _without_values(error.problem or str(error))
        raise
    except YAMLError as error:
        raise YAMLError(_without_values(str(error))) from None
    except Exception as error:  # a value that isn't of its tag, in many ways
        raise YAMLError("a value isn't of the type that its tag names") from error


def read_document(file: Path, environment: Mapping[str, str]) -> Document:
    """Read and substitute.

    Raises:
        ConfigurationError: no such file, not YAML, not a mapping, a variable that isn't set.
    """
    name = str(file)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigurationError(f"{name}: there is no such file", file=name) from error
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
        ) from None  # it quotes the line, which may hold a secret
    except YAMLError as error:
        raise ConfigurationError(f"{name}: not valid YAML: {error}", file=name) from None
    if not isinstance(loaded, CommentedMap):
        raise ConfigurationError(
            f"{name}: must be a mapping that begins with 'connector:'", file=name, line=1
        )
    lines: dict[KeyPath, int] = {}
    _collect_lines(loaded, (), lines)
    bare = Document(file=name, values={}, lines=lines)
    values = _plain(loaded, (), bare, environment)
    assert isinstance(values, dict)
    clear = frozenset(_clear_texts(loaded, ()))
    return Document(file=name, values=values, lines=lines, clear_texts=clear)


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
    """Of a key that was merged in (`<<: *others`) the line of the mapping that took it in."""
    known = node.lc.data or {}
    line: int = known[key][0] if key in known else node.lc.line
    return line + 1


def _clear_texts(node: object, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(node, CommentedMap):
        for key in node:
            yield from _clear_texts(node[key], (*path, str(key)))
    elif isinstance(node, str | int | float) and not isinstance(node, bool):
        text = str(node)
        if text and not any(_comes_from_elsewhere(v) for v in _VARIABLE.finditer(text)):
            yield path


def _comes_from_elsewhere(variable: re.Match[str]) -> bool:
    """A default stands in the file."""
    return variable["file"] is not None or bool(variable["name"] and not variable["default"])


def _plain(node: object, path: KeyPath, at: Document, environment: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        found: dict[str, Any] = {}
        for key, value in node.items():
            below = (*path, str(key))
            if str(key) in found:  # 1 and "1" are two keys to YAML
                raise at.error(f"the key {str(key)!r} is there twice", below)
            found[str(key)] = _plain(value, below, at, environment)
        return found
    if isinstance(node, list):
        return [_plain(v, (*path, i), at, environment) for i, v in enumerate(node)]
    if isinstance(node, str):
        return _substitute(str(node), path, at, environment)
    if isinstance(node, bool) or node is None:
        return node
    if isinstance(node, TaggedScalar) and node.tag.value in _TAGS_OF_TEXT:
        return _substitute(str(node.value), path, at, environment)
    if not isinstance(node, int | float):
        raise at.error("'!' begins a tag of YAML; write a text that begins with it in quotes", path)
    if path[:2] in FREE_SECTIONS and (written := getattr(node, "written", None)) is not None:
        return str(written)  # a property of somebody else is a text
    return int(node) if isinstance(node, int) else float(node)


_TAGS_OF_TEXT = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "merge", "value"))


def _substitute(text: str, path: KeyPath, at: Document, environment: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return "${"
        if match["file"] is not None:
            return _content(match["file"], path, at)
        name, default = match["name"], match["default"]
        if not _NAME.match(name):
            raise at.error(
                "a text with ${...} that isn't ${NAME} or ${NAME:-default}; write $${ for a ${ "
                "that is meant as it stands",
                path,
            )
        found = environment.get(name)
        if default is not None:
            return found or default
        if found is None:
            raise at.error(
                f"the environment variable {name} isn't set; set it, or write ${{{name}:-default}}",
                path,
            )
        return found

    return _VARIABLE.sub(value, text) if "$" in text else text


def _content(name: str, path: KeyPath, at: Document) -> str:
    """What a file holds; its name is relative to the configuration."""
    if not name.strip() or ":-" in name:
        raise at.error(f"'${{file:{name}}}' isn't ${{file:PATH}}, which has no default", path)
    try:
        file = Path(at.file).parent / Path(name).expanduser()
    except RuntimeError as error:
        raise at.error(no_home(name), path) from error
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError as error:
        raise at.error(f"there is no file {file}, which ${{file:...}} names", path) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
        raise at.error(f"the file {file} can't be read: {reason}", path) from error


def _without_values(text: str) -> str:
    """The first line of what the parser says, without what it quotes of the file but marks."""
    line = text.strip().splitlines()[0] if text.strip() else "unreadable"
    if found := _DUPLICATE.match(line):
        return f"the key {found[1]!r} is there twice"
    if line.startswith("found undefined alias"):
        return "an alias (*name) that nothing defines; quote a text that begins with *"
    return _QUOTED.sub("'...'", line)


_DUPLICATE = re.compile(r'found duplicate key "([^"]*)"')
_QUOTED = re.compile(r"(['\"])(?!<)[^'\"]{2,}.*\1")
"""Texts of more than a character; `<block end>` is a mark of the parser's own."""
