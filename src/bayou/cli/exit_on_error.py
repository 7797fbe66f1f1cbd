"""Messages and exit codes of commands that end with an exception.

| code | |
|---|---|
| 0 | success |
| 1 | failed |
| 2 | wrong usage or configuration |
| 130 | stopped by Ctrl-C |
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from bayou.cli.output.interface import Messages, ReaderClosedError
from bayou.errors import (
    ArgumentError,
    BayouError,
    ConfigurationError,
    EvaluationError,
    PredicateError,
    TableNotFoundError,
)
from bayou.redaction import is_panic, without_secrets
from bayou.suggestions import closest

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

_OPTIONS = frozenset({"columns", "key", "limit", "retention_hours", "target_size", "version"})
"""Names of method arguments for which commands have an option of the same name. A message about
such an argument begins with the option, such as `--limit`, instead of the argument's name."""


@contextlib.contextmanager
def exit_on_error(output: Messages, *, where: str | None = None) -> Iterator[None]:
    """Context manager that prints an exception as one line and exits with the matching exit code.

    If the environment variable `BAYOU_DEBUG` is set, exceptions are raised with their traceback.

    Args:
        where: the value of the option `--where`. If set, the message of a `PredicateError` begins
            with `--where: `.
    """
    try:
        yield
    except typer.Exit:
        raise
    except typer.Abort as error:  # Ctrl-C or Ctrl-D instead of an answer
        typer.echo("\nNothing was changed.", err=True)
        raise typer.Exit(INTERRUPTED) from error
    except KeyboardInterrupt as error:
        output.notice("stopped. Run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from error
    except ReaderClosedError as error:  # a reader such as `head` closed the pipe
        _discard_stdout()
        raise typer.Exit(FAILED) from error
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        if os.environ.get("BAYOU_DEBUG"):
            raise
        message = _message(error)
        if where is not None and isinstance(error, PredicateError):
            message = f"--where: {message}"
        try:
            output.error(message, kind=type(error).__name__)
        except OSError:  # stdout is full, which may be the error itself
            _discard_stdout()
            typer.echo(f"error: {message}", err=True)
        raise typer.Exit(_code(error)) from error


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that flushing stdout at exit raises no exception."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _code(error: BaseException) -> int:
    match error:
        case EvaluationError():  # an error of a row; the expression is valid
            return FAILED
        case ConfigurationError() | ArgumentError() | PredicateError():
            return WRONG_USAGE
        case _:
            return FAILED


def _message(error: BaseException) -> str:
    return without_secrets(_describe(error))


def _describe(error: BaseException) -> str:
    match error:
        case TableNotFoundError():
            return f"{error.message}{_similar_table(error.table)}"
        case ArgumentError(argument=name) if error.message.startswith(f"{name}: "):
            option = f"--{name.replace('_', '-')}"
            return f"{option if name in _OPTIONS else name}{error.message.removeprefix(name)}"
        case BayouError():
            return error.message
        case ImportError(name=str() as name) if not name.startswith("bayou"):
            return (
                f"Python package {name.split('.')[0]!r}: not installed, and this command needs it. "
                "Install it with: pip install 'bayou[all]'"
            )
        case OSError(errno=errno.ENOSPC):
            disk = f"{error.filename}: " if error.filename else ""
            return f"{disk}no space left on the disk. Free some space and run the command again."
        case OSError():
            return f"operating system error: {error}"
        case _:
            first_line = (str(error).strip().splitlines() or ["no message"])[0]
            return (
                f"Unexpected {type(error).__name__}: {first_line}. This is a bug in Bayou. Set "
                "BAYOU_DEBUG=1 to print the traceback."
            )


def _similar_table(path: str) -> str:
    """Return a hint that names a similar table in the same folder, or an empty string."""
    folder = Path(path).parent
    if "://" in path or not folder.is_dir():
        return ""
    try:
        tables = [p.name for p in itertools.islice(folder.iterdir(), 10_000) if _is_table(p)]
    except OSError:
        return ""
    near = closest(Path(path).name, tables)
    return "" if near is None else f" Did you mean {str(folder / near)!r}?"


def _is_table(path: Path) -> bool:
    return (path / "_delta_log").is_dir()
