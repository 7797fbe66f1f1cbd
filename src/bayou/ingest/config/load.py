"""Loads and validates a configuration. Errors name the file, the line and the key."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bayou.errors import ArgumentError, ConfigurationError
from bayou.ingest.config.base_section import SectionKeyError
from bayou.ingest.config.configuration import (
    Configuration,
    Topic,
    TopicSection,
    table_problems,
)
from bayou.ingest.config.connector.hadoop import take_s3a_settings
from bayou.ingest.config.document import Document, KeyPath, no_home, read_document
from bayou.ingest.config.model import PipelineConfig
from bayou.ingest.config.notices import missing_broker, notices, refusals
from bayou.ingest.config.overrides import apply_environment, apply_overrides
from bayou.ingest.config.pipeline_files import files_in_tables
from bayou.ingest.config.table_paths import resolve_path
from bayou.suggestions import closest


def load_configuration(
    file: str | Path,
    *,
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Load a configuration from a YAML file, with overrides and environment variables.

    Args:
        file: the YAML file.
        settings: overrides of the form `KEY=VALUE`, where the key is a path such as
            `connector.state-path`.
        environment: the environment variables; if None, `os.environ` is used.

    Raises:
        ConfigurationError: the configuration is invalid. The message has one line for each problem.
            The line names the problem's file, line and key.

    Examples:
        >>> configuration = load_configuration("pipeline.yaml")
        >>> print([topic.key for topic in configuration.topics])
        >>> less = load_configuration("pipeline.yaml", settings=["connector.state-path=/tmp/state"])
    """
    environment = os.environ if environment is None else environment
    path = Path(file)
    document = read_document(path, environment)
    apply_overrides(document, settings, environment)
    s3a = take_s3a_settings(document.values)
    apply_environment(document, environment)
    try:
        config = PipelineConfig.model_validate(document.values)
    except ValidationError as error:
        raise _configuration_error(document, error) from error
    if problems := _path_problems(document, config):
        raise _joined(problems)
    topics, patterns, problems = _topics(document, config, path.resolve().parent)
    if problems:
        raise _joined(problems)
    state = config.connector.state_path
    state_path = Path(state).expanduser() if state else Path(".bayou")
    if not state_path.is_absolute():
        state_path = path.resolve().parent / state_path
    configuration = Configuration(
        file=str(file),
        connector=config.connector,
        topics=topics,
        patterns=patterns,
        state_path=state_path,
        notices=notices(config, document, s3a),
        refusals=refusals(config, document),
        missing_broker=missing_broker(config, document),
        folder=path.resolve().parent,
    )
    if problems := files_in_tables(document, configuration):
        raise _joined(problems)
    return configuration


def _path_problems(document: Document, config: PipelineConfig) -> list[ConfigurationError]:
    """Return an error for each path that is invalid, or starts with the `~` of an unknown user."""
    connector = config.connector
    paths: dict[KeyPath, str] = {("connector", "state-path"): connector.state_path or ""}
    for key, topic in connector.topics.items():
        at: KeyPath = ("connector", "topics", key, "destination", "table-path")
        paths[at] = topic.destination.path
        if (routes := topic.destination.route_by) is not None:
            for number, route in enumerate(routes.paths):
                paths["connector", "topics", key, "destination", "route-by", number] = route
        paths["connector", "topics", key, "schema-file"] = topic.schema_file or ""
    for key, folder in connector.migration.json_path.items():
        paths["connector", "migration", "json-path", key] = folder
    problems: list[ConfigurationError] = []
    for at, location in paths.items():
        local_path = location.removeprefix("file://")
        if (character := _invalid_character(location)) is not None:
            problems.append(document.error(f"the path contains {character}; remove it", at))
            continue
        try:
            Path(local_path).expanduser()
        except RuntimeError:
            problems.append(document.error(no_home(local_path), at))
    return problems


def _invalid_character(path: str) -> str | None:
    """Describe an invalid character of a path, such as `a NUL character`; None if there is none."""
    if "\0" in path:
        return "a NUL character"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "a lone surrogate"
    return None


def _topics(
    document: Document, config: PipelineConfig, folder: Path
) -> tuple[tuple[Topic, ...], tuple[TopicSection, ...], list[ConfigurationError]]:
    """Return the listed topics, the sections with a pattern, and all errors of the sections."""
    topics: list[Topic] = []
    patterns: list[TopicSection] = []
    problems: list[ConfigurationError] = []
    for key, topic in config.connector.topics.items():
        at: KeyPath = ("connector", "topics", key)
        schema_file = folder / Path(topic.schema_file).expanduser() if topic.schema_file else None
        if topic.schema_file and "://" in topic.schema_file:  # not shown: it may contain a password
            problems.append(
                document.error(
                    "a URL isn't supported; set the path of a local file", (*at, "schema-file")
                )
            )
        elif schema_file is not None and not schema_file.is_file():
            problems.append(
                document.error(
                    f"the file {schema_file} doesn't exist; correct the path, which is relative to "
                    "the folder of the configuration file",
                    (*at, "schema-file"),
                )
            )
        if topic.has_several_topics and config.connector.migration.enabled:
            problems.append(
                document.error(
                    "JSON files can't be migrated into tables of several topics; write a section "
                    "for each topic, or remove connector.migration",
                    at,
                )
            )
        if topic.destination.route_by is not None and config.connector.migration.enabled:
            problems.append(
                document.error(
                    "JSON files can't be migrated into the tables of route-by; remove "
                    "connector.migration, or migrate them with a section without route-by",
                    (*at, "destination", "route-by"),
                )
            )
        section = TopicSection(
            key=key,
            config=topic,
            folder=folder,
            schema_file=schema_file,
            time_zone=config.connector.spark.time_zone,
        )
        try:
            topics += section.topics
            section.topic("topic")  # for a pattern, checks the path
        except ArgumentError as error:
            problems.append(document.error(str(error), (*at, "destination", "table-path")))
            continue
        if section.has_pattern:
            patterns.append(section)
    problems += [
        document.error(problem, ("connector", "topics", topic.section, "destination", "table-path"))
        for topic, _, problem in table_problems(topics)
    ]
    for key, json_path in config.connector.migration.json_path.items():
        try:
            resolve_path(json_path, folder)
        except ArgumentError as error:
            at = ("connector", "migration", "json-path", key)
            problems.append(document.error(str(error), at))
    known = config.connector.topics
    problems += [
        document.error(
            f"unknown topic {key!r}{_did_you_mean(key, list(known))}",
            ("connector", "migration", "json-path", key),
        )
        for key in config.connector.migration.json_path
        if key not in known
    ]
    return tuple(topics), tuple(patterns), problems


def _configuration_error(document: Document, error: ValidationError) -> ConfigurationError:
    details = error.errors(include_url=False)
    misspelled = {
        (*d["loc"][:-1], _closest(str(d["loc"][-1]), _allowed_keys(d["loc"][:-1])))
        for d in details
        if d["type"] == "extra_forbidden"
    }
    return _joined(
        [
            _one_error(document, detail)
            for detail in details
            # A misspelled key is reported once, as an unknown key.
            if not (detail["type"] == "missing" and detail["loc"] in misspelled)
        ]
    )


def _one_error(document: Document, detail: ErrorDetails) -> ConfigurationError:
    path: KeyPath = tuple(detail["loc"])
    message, key = problem_of(detail, path)
    return document.error(message, key)


def problem_of(detail: ErrorDetails, path: KeyPath) -> tuple[str, KeyPath]:
    """Return the message for an error of pydantic, and the path of the key or section to correct.

    Args:
        path: the path that pydantic reports: keys and list indexes from the document's root.
    """
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown key{_did_you_mean(str(path[-1]), _allowed_keys(path[:-1]))}", path
        case "missing":
            return f"the key {path[-1]!r} is missing", path[:-1] or path
        case "value_error":
            problem = detail["ctx"]["error"]
            key = (problem.key,) if isinstance(problem, SectionKeyError) else ()
            return str(problem), (*path, *key)
        case "literal_error":
            return f"must be {detail['ctx']['expected']}", path
        case "tuple_type":
            return "must be a list, such as [a, b]", path
        case "model_type" | "dict_type":
            return "must be a section with keys", path
        case "too_short":
            return "is empty", path
        case kind if kind in _MUST_BE:
            limits = {k: f"{v:g}" for k, v in detail.get("ctx", {}).items() if k in _LIMITS}
            return f"must be {_MUST_BE[kind].format(**limits)}", path
        case _:
            message = detail["msg"].removeprefix("Input ").strip()
            return message[:1].lower() + message[1:], path


_LIMITS = frozenset({"ge", "gt", "le", "lt"})
_MUST_BE = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_type": "a whole number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "list_type": "a list, such as [a, b]",
    "string_type": "a string; quote it",
}
"""The expected value for each type of error that pydantic reports."""


def _allowed_keys(path: KeyPath) -> list[str]:
    kind: Any = PipelineConfig
    for part in path:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            fields = {f.alias or n: f.annotation for n, f in kind.model_fields.items()}
            kind = _section_of(fields.get(str(part)))
        else:
            kind = _section_of(typing.get_args(kind)[-1] if typing.get_args(kind) else None)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [f.alias or n for n, f in kind.model_fields.items()]
    return []


def _section_of(annotation: Any) -> Any:
    """Return the section class of an annotation such as `X | None`."""
    options = [o for o in typing.get_args(annotation) if o is not type(None)]
    if options and typing.get_origin(annotation) is not dict and len(options) == 1:
        return options[0]
    return annotation


def _did_you_mean(name: str, allowed: Sequence[str]) -> str:
    close = _closest(name, allowed)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; known keys: {', '.join(sorted(allowed))}" if allowed else ""


def _closest(name: str, allowed: Sequence[str]) -> str | None:
    return closest(name.replace("_", "-"), allowed)


def _joined(problems: Sequence[ConfigurationError]) -> ConfigurationError:
    ordered = sorted(problems, key=lambda p: p.line or 0)
    first = ordered[0]
    return ConfigurationError(
        "\n".join(p.message for p in ordered), file=first.file, line=first.line, key=first.key
    )
