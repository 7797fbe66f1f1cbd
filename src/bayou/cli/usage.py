"""Formats help texts and messages about wrong usage, for all commands."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from bayou.cli.exit_on_error import INTERRUPTED, WRONG_USAGE
from bayou.suggestions import did_you_mean

_MAX_WIDTH = 100
_MAX_NAME_WIDTH = 26


class Command(TyperCommand):
    """A command whose help has a description, the usage, an example, arguments and options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_without_conversion(p) for p in super().get_params(ctx)]

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx)


class Group(TyperGroup):
    """A group of commands; the root group also prints messages about wrong usage."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_without_conversion(p) for p in super().get_params(ctx)]

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command that the arguments name; see `click.Command.main`."""
        if not options.get("standalone_mode", True):
            return super().main(*args, **options)
        try:
            result = super().main(*args, **options | {"standalone_mode": False})
        except typer.Abort:
            sys.exit(INTERRUPTED)
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            _exit_with_usage_error(error)
        sys.exit(result if isinstance(result, int) else 0)


def _without_conversion(parameter: Any) -> Any:
    """Change a parameter so that Typer doesn't convert strings, lists of strings and None.

    Typer converts values with pydantic. Importing pydantic takes a sixth of the time that a
    command needs to read a small table.
    """
    if "process_value" in vars(parameter):
        return parameter
    convert = parameter.process_value
    repeated = getattr(parameter, "multiple", False) or parameter.nargs != 1
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)

    def process_value(ctx: Any, value: Any) -> Any:
        if value is None and not parameter.required:
            value = () if repeated else None
        elif annotation == list[str] and isinstance(value, tuple) and value:
            value = list(value)
        elif not (annotation is str and isinstance(value, str)):
            return convert(ctx, value)
        return parameter.callback(ctx, parameter, value) if parameter.callback else value

    parameter.process_value = process_value
    return parameter


def description(command: Any) -> tuple[str, str]:
    """Return a command's help text and its example."""
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    before, _, example = text.partition("Example:\n")
    return before.strip(), textwrap.dedent(example).strip("\n")


def usage(command: Any, path: str) -> str:
    """Return a line such as `bayou read [OPTIONS] TABLE`."""
    arguments = [argument_name(p) for p in command.params if p.param_type_name == "argument"]
    if hasattr(command, "commands"):
        arguments.append("COMMAND")
    return " ".join([path, "[OPTIONS]", *arguments])


def argument_name(argument: Any) -> str:
    """Return an argument's name in the usage line, such as `TABLE` or `[TABLE]...`."""
    name = argument.metavar or argument.name.upper()
    repeated = "..." if argument.nargs != 1 else ""
    return f"{name}{repeated}" if argument.required else f"[{name}]{repeated}"


def option_name(option: Any) -> str:
    """Return an option with its short form and the name of its value: `-n, --limit N`."""
    names = ", ".join(sorted(option.opts, key=len))
    flag = getattr(option, "is_flag", False)
    return names if flag else f"{names} {option.metavar or option.name.upper()}"


def parameter_help(parameter: Any) -> str:
    """Return the description of a parameter, with its default value."""
    text = parameter.help or ""
    default = parameter.default
    if isinstance(parameter.show_default, str):
        default = parameter.show_default
    if parameter.required and parameter.param_type_name == "option":
        return f"{text} Required."
    if not parameter.show_default or default in (None, False, (), [], ""):
        return text
    return text if "Default:" in text else f"{text} Default: {default}."


def help_text(command: Any, ctx: Any) -> str:
    """Return the help of a command or a group of commands."""
    width = max(40, min(shutil.get_terminal_size().columns, _MAX_WIDTH))
    text, example = description(command)
    parts = [_wrapped(text, width), f"Usage: {usage(command, ctx.command_path)}"]
    if example:
        indented = textwrap.indent(example, "  ")
        parts.append(f"Example{'s' if chr(10) in example else ''}:\n{indented}")
    arguments = [
        (argument_name(p).strip("[]."), parameter_help(p))
        for p in command.params
        if p.param_type_name == "argument"
    ]
    options = [
        (option_name(p), parameter_help(p))
        for p in command.get_params(ctx)
        if p.param_type_name == "option" and not getattr(p, "hidden", False)
    ]
    parts += [_section(title, rows, width) for title, rows in _commands(command)]
    parts += [_section("Arguments", arguments, width)] if arguments else []
    parts += [_section("Options", options, width)]
    return "\n\n".join(parts)


def _commands(command: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each section of a group's help: (title, [(command, its first help line), ...])."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for name, sub in getattr(command, "commands", {}).items():
        panel = getattr(sub, "rich_help_panel", None)
        title = panel if isinstance(panel, str) else "Commands"
        first_line = description(sub)[0].split("\n")[0]
        sections.setdefault(title, []).append((name, first_line))
    yield from sections.items()


def _wrapped(text: str, width: int) -> str:
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        textwrap.fill(" ".join(p.split()), width, break_on_hyphens=False) for p in paragraphs
    )


def _section(title: str, rows: list[tuple[str, str]], width: int) -> str:
    indent = 4 + min(_MAX_NAME_WIDTH, max(len(name) for name, _ in rows))
    lines = [f"{title}:"]
    for name, text in rows:
        first = f"  {name}  ".ljust(indent)
        wrapped = textwrap.wrap(
            text, width - indent, break_on_hyphens=False, break_long_words=False
        ) or [""]
        if len(first) > indent:
            lines.append(first)
        else:
            lines.append(f"{first}{wrapped.pop(0)}")
        lines += [" " * indent + line for line in wrapped]
    return "\n".join(line.rstrip() for line in lines)


def _exit_with_usage_error(error: Any) -> NoReturn:
    ctx: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(ctx.get_help(), err=True)
        sys.exit(WRONG_USAGE)
    from bayou.cli.output.console import ConsoleOutput

    output = ConsoleOutput()
    output.error(usage_message(error), kind="UsageError")
    if ctx is not None:
        path = ctx.command_path
        typer.echo(f"Usage: {usage(ctx.command, path)}\nHelp: {path} --help", err=True)
    sys.exit(WRONG_USAGE)


def usage_message(error: Any) -> str:
    """Return the message of an error about wrong arguments."""
    ctx: Any = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else "bayou"
    parameter = getattr(error, "param", None)
    match type(error).__name__:
        case "NoSuchOption":
            known = [
                name
                for p in ctx.command.get_params(ctx)
                if p.param_type_name == "option"
                for name in p.opts
            ]
            hint = did_you_mean(error.option_name, known)
            return f"{error.option_name}: {command} has no such option.{hint}"
        case "MissingParameter" if parameter is not None:
            if parameter.param_type_name == "argument":
                return f"{command}: {argument_name(parameter).rstrip('.')} is missing."
            return f"{command}: the option {max(parameter.opts, key=len)} is missing."
        case "BadParameter" if parameter is not None:
            named = parameter.param_type_name == "option"
            name = max(parameter.opts, key=len) if named else argument_name(parameter)
            return f"{name}: {_bad_value(error)}"
        case _ if ctx is not None and "No such command" in error.message:
            name = error.message.split("'")[1]
            hint = did_you_mean(name, ctx.command.commands)
            return f"{name}: {command} has no such command.{hint}"
        case "BadOptionUsage":
            problem = "has no value" if "does not take" in error.message else "a value is missing"
            return f"{error.option_name}: {problem}."
        case _ if "unexpected extra argument" in error.message:
            options = [
                name for name in ("settings", "security_setting") if ctx and ctx.params.get(name)
            ]
            if options:  # the argument may be a secret value after `KEY ` instead of `KEY=`
                return f"{command}: unexpected argument. Write the options' values as KEY=VALUE."
            found = re.search(r"\(([^()]*)\)\.?$", error.message)
            extra = found[1] if found else error.message
            return f"{command}: unexpected argument {extra!r}."
        case _:
            return str(error.message)


def _bad_value(error: Any) -> str:
    """Return a message about an invalid value of an argument or option."""
    cause = error.__cause__
    details = cause.errors() if hasattr(cause, "errors") else []
    if not details:
        return str(error.message)
    detail = details[0]
    value = detail.get("input")
    shown = str(value) if isinstance(value, int | float) else repr(value)
    limits = detail.get("ctx", {})
    match detail["type"]:
        case "greater_than_equal":
            return f"{shown} is too small. Give {limits['ge']} or more."
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return f"{shown} isn't a whole number."
        case "float_parsing" | "finite_number":
            return f"{shown} isn't a number."
        case _:
            text = str(error.message).removeprefix("Value error, ")
            value, separator, choices = text.partition(" is not one of ")
            if not separator:
                return text
            known = [choice.strip(" '.") for choice in choices.split(",")]
            hint = did_you_mean(value.strip("'"), known)
            return f"{value} isn't one of {', '.join(known)}.{hint}"
