"""Checks of the Java and PySpark versions.

Importing this module checks the PySpark version. `bayou.spark` imports this module first, because
other modules of the package can't be imported with an old PySpark.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from bayou.errors import PrerequisiteError

MINIMUM_JAVA = 17
"""Oldest Java version that Spark 4 supports."""

_INSTALL = (
    f"Spark needs Java {MINIMUM_JAVA} or newer. Install it (Debian: apt-get install "
    "openjdk-17-jre-headless, macOS: brew install openjdk@17) or set JAVA_HOME."
)


def check_java(environment: Mapping[str, str] | None = None) -> int:
    """Return the major version of the Java installation that Spark will use.

    Args:
        environment: environment variables; by default those of this process.

    Raises:
        PrerequisiteError: Java is missing, doesn't start, or is too old.
    """
    variables = os.environ if environment is None else environment
    java = _find_java(variables)
    try:
        run = subprocess.run(  # `java -version` prints to stderr
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError(
            f"{java}: it doesn't start: {error}. {_INSTALL}", what="java"
        ) from error
    version = major_version(run.stderr + run.stdout)
    if run.returncode != 0 or version is None:
        raise PrerequisiteError(f"{java}: `java -version` failed. {_INSTALL}", what="java")
    if version < MINIMUM_JAVA:
        raise PrerequisiteError(f"{java}: this is Java {version}. {_INSTALL}", what="java")
    return version


def major_version(output: str) -> int | None:
    """Parse the major version from the output of `java -version`; None if there is none."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if match is None:
        return None
    first = int(match[1])
    return int(match[2]) if first == 1 and match[2] else first  # "1.8.0_402" is Java 8


def _find_java(variables: Mapping[str, str]) -> str:
    home = variables.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise PrerequisiteError(
                f"JAVA_HOME: {java} doesn't exist in {home}. {_INSTALL}", what="java"
            )
        return str(java)
    java_in_path = shutil.which("java", path=variables.get("PATH"))
    if java_in_path is None:
        raise PrerequisiteError(f"Java: it isn't installed. {_INSTALL}", what="java")
    return java_in_path


OLDEST = (4, 1)
"""Oldest supported PySpark version, as (major, minor).

Older versions have no filter pushdown for Python data sources. Streaming reads need 4.2; see
`read_limits`.
"""


def check_pyspark(version: str) -> None:
    """Raise `PrerequisiteError` if a PySpark version is older than `OLDEST`."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise PrerequisiteError(
            f"PySpark: version {version} is too old for bayou.spark. Install 4.1 or newer: pip "
            "install 'pyspark>=4.1'. bayou.table and bayou.write don't need PySpark.",
            what="pyspark",
        )


def installed_pyspark() -> str:
    """Return the version of the installed PySpark, without the slow import of PySpark.

    Raises:
        ModuleNotFoundError: PySpark isn't installed.
    """
    package = importlib.util.find_spec("pyspark")
    if package is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return package_version(package)


def package_version(package: ModuleSpec) -> str:
    """Return `__version__` from a package's `version.py`; "" if the version can't be read.

    The package's loader reads the file: in Spark's Python workers, PySpark is in a ZIP file.
    """
    loader: Any = package.loader
    if package.origin is None or not hasattr(loader, "get_data"):
        return ""
    source = loader.get_data(str(Path(package.origin).with_name("version.py"))).decode()
    match = re.search(r"""^__version__[^=]*= *["'](.+?)["']""", source, re.MULTILINE)
    return "" if match is None else match[1]


check_pyspark(installed_pyspark())
