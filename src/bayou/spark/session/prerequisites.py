"""Is there a Java that Spark can run on?

Is this a PySpark that Bayou knows? Importing this module asks, before other imports fail.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark

from bayou.errors import PrerequisiteError

__all__ = ["MINIMUM_JAVA", "OLDEST", "check_java", "check_pyspark", "major_version"]


MINIMUM_JAVA = 17
"""What Spark 4 runs on."""

_INSTALL = (
    f"Spark needs Java {MINIMUM_JAVA} or newer; install one (Debian: apt-get install "
    "openjdk-17-jre-headless, macOS: brew install openjdk@17) or set JAVA_HOME to it."
)


def check_java(environment: Mapping[str, str] | None = None) -> int:
    """The major version of the Java that Spark will start.

    Args:
        environment: environment variables, those of this process where None.

    Raises:
        PrerequisiteError: no Java, one that doesn't start, or one that is too old.
    """
    variables = os.environ if environment is None else environment
    java = _find(variables)
    try:
        run = subprocess.run(  # the version goes to stderr, as `-version` has always done
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError(
            f"{java} doesn't start: {error}. {_INSTALL}", what="java"
        ) from error
    version = major_version(run.stderr + run.stdout)
    if run.returncode != 0 or version is None:
        raise PrerequisiteError(f"{java} -version doesn't work. {_INSTALL}", what="java")
    if version < MINIMUM_JAVA:
        raise PrerequisiteError(f"{java} is Java {version}. {_INSTALL}", what="java")
    return version


def major_version(text: str) -> int | None:
    """The major version in what `java -version` prints, None where there is none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first  # "1.8.0_402" is Java 8


def _find(variables: Mapping[str, str]) -> str:
    home = variables.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise PrerequisiteError(
                f"JAVA_HOME is {home}, but there is no {java}. {_INSTALL}", what="java"
            )
        return str(java)
    found = shutil.which("java", path=variables.get("PATH"))
    if found is None:
        raise PrerequisiteError(f"There is no Java on this machine. {_INSTALL}", what="java")
    return found


OLDEST = (4, 1)
"""Older ones have no filters for Python data sources; before 4.2 there are no streams with limits,
see `read_limits`."""


def check_pyspark(version: str) -> None:
    """Refuse a version that is too old.

    Raises:
        PrerequisiteError: it is older than `OLDEST`.
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise PrerequisiteError(
            f"This is PySpark {version}, and bayou.spark needs 4.1 or newer: pip install "
            "'pyspark>=4.1'. Without Spark, bayou.table and bayou.write work as they are.",
            what="pyspark",
        )


check_pyspark(pyspark.__version__)
