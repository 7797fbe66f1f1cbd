"""Exit codes, and the one place where errors become words.

| code | |
|---|---|
| 0 | fine |
| 1 | failed |
| 2 | wrong usage or configuration |
| 130 | stopped by Ctrl-C |
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator

import typer

from bayou.cli.output.interface import Output, UnreadError
from bayou.errors import (
    ArgumentError,
    BayouError,
    ConfigurationError,
    EvaluationError,
    PredicateError,
)
from bayou.redaction import is_panic, without_secrets

__all__ = ["FAILED", "INTERRUPTED", "WRONG_USAGE", "explained"]

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130


@contextlib.contextmanager
def explained(output: Output) -> Iterator[None]:
    """Turn whatever goes wrong inside into a sentence and an exit code.

    With `BAYOU_DEBUG` set in the environment errors come with their stack.
    """
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt as error:
        output.notice("stopped; run the same command again to go on")
        raise typer.Exit(INTERRUPTED) from error
    except UnreadError as error:  # `| head` has seen enough
        _let_go_of_stdout()
        raise typer.Exit(FAILED) from error
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        if os.environ.get("BAYOU_DEBUG"):
            raise
        try:
            output.error(_sentence(error), kind=type(error).__name__)
        except OSError:  # stdout has no room for it, which may be the error itself
            _let_go_of_stdout()
            typer.echo(f"error: {_sentence(error)}", err=True)
        raise typer.Exit(_code(error)) from error


def _let_go_of_stdout() -> None:
    """What it still holds would be an error of the interpreter's, at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _code(error: BaseException) -> int:
    match error:
        case EvaluationError():  # of a row: the expression is one
            return FAILED
        case ConfigurationError() | ArgumentError() | PredicateError():
            return WRONG_USAGE
        case _:
            return FAILED


def _sentence(error: BaseException) -> str:
    return without_secrets(_described(error))


def _described(error: BaseException) -> str:
    match error:
        case BayouError():
            return error.message
        case ImportError(name=str() as name) if not name.startswith("bayou"):
            return (
                f"The Python package {name.split('.')[0]!r} is missing; install what this command "
                "needs with: pip install 'bayou[all]'"
            )
        case OSError(errno=errno.ENOSPC):
            where = f" for {error.filename}" if error.filename else ""
            return f"There is no space left on the disk{where}; free some and run it again."
        case OSError():
            return f"The system refused: {error}"
        case _:
            first = (str(error).strip().splitlines() or ["no text"])[0]
            return (
                f"Unexpected {type(error).__name__}: {first}. This is a bug in Bayou; "
                "BAYOU_DEBUG=1 shows where."
            )
