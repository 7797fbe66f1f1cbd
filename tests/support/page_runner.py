"""Runs the code blocks of a page in their order, as a reader would.

The blocks of a page share a folder, which is the current folder, and a Python scope. Addresses of
servers and paths in object stores are replaced by those of the test.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from ruamel.yaml import YAML

from support.page_blocks import ROOT, Block
from support.shown_output import compare_or_record, on_terminal

__all__ = ["PageRunner"]

_STORES = (
    "s3a://test-data-lake/",
    "s3://test-data-lake/",
    "s3://lake/",
    "gs://lake/",
    "abfss://lake@account.dfs.core.windows.net/",
)
_BROKER = "localhost:9092"
_LAKE = re.compile(r"(?<![\w./:-])/?lake/")
_SECRETS = re.compile(r"(?<![\w./-])/(?:etc|run)/(?=[\w./-]+\.(?:pem|key|keytab)|secrets/)")
_FILE = re.compile(r"[\"' ](/[\w./-]+\.(?:pem|key|keytab|json))")
_PASSWORD = "secret"
"""The value of each environment variable that a configuration names."""

_VARIABLE = re.compile(r"\$\{(\w+)[:}]")
_COMMENT = re.compile(r"\s+#.*$")
_DIFFERENCES = ("bayou diff", "bayou schema diff")
"""Commands whose exit code is 1 if there are differences."""

_PLACES: dict[str, tuple[str, ...]] = {"security": ("kafka",), "topics": ()}
_TOPIC = ("topics", "user-events")
"""The sections of `connector` to which the keys of a part of a configuration belong."""


@dataclass
class PageRunner:
    """Runs the blocks of one page.

    Attributes:
        folder: the current folder of the blocks.
        broker: address of a Kafka broker, which replaces `localhost:9092`.
        invoke: runs a `bayou` command in this process; returns a result of Typer's runner.
        execute: runs a `bayou` command in this process with its stdout; returns its exit code.
        setenv: sets an environment variable until the page has ended.
        spark: returns the shared session.
        scope: the variables of the Python blocks.
        replacements: texts of the page and what they are replaced by.
        output: what the commands have printed.
    """

    folder: Path
    broker: str
    invoke: Callable[..., Any]
    execute: Callable[..., int]
    setenv: Callable[[str, str], None]
    spark: Callable[[], Any]
    scope: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    replacements: dict[str, str] = field(default_factory=dict)
    output: list[str] = field(default_factory=list)

    @property
    def lake(self) -> Path:
        """The folder of the tables."""
        return self.folder / "lake"

    def run(self, block: Block) -> None:
        """Run a block, and compare its output with the page; an error names its page and line."""
        runs = {
            "python": self._run_python,
            "sql": self._run_sql,
            "yaml": self._run_yaml,
            "json": lambda block: json.loads(block.text),
        }
        try:
            run = runs.get(block.language, self._run_commands)
            if block.output is None:
                run(block)
                return
            with on_terminal(self.setenv) as terminal:
                run(block)
            # Commands print absolute paths; in Python and SQL, only the test's paths are absolute.
            folder = "" if block.language in ("python", "sql") else "/home/me/bayou/"
            shown = terminal.screen().replace(f"{self.folder}/", folder)
            shown = shown.replace(self.broker, _BROKER)
            self.output.append(shown)
            compare_or_record(ROOT / block.page, block.line, block.output, shown)
        except Exception as error:
            error.add_note(f"in the {block.language} block of {block}:\n{block.text}")
            raise

    def _run_python(self, block: Block) -> None:
        uses_spark = "spark" in block.text or "spark" in self.scope
        text = self._replaced(block.text, absolute=uses_spark)
        if "SparkSession" in text or "start_session" in text:
            self.spark()
        # Numbers of lines in tracebacks are those of the page.
        code = compile("\n" * (block.line - 1) + text, block.page, "exec")
        exec(code, self.scope)

    def _run_sql(self, block: Block) -> None:
        text = self._replaced(block.text, absolute=True)
        for statement in re.split(r";\s*(?:\n|$)", text):
            if statement.strip():
                self.spark().sql(statement).collect()

    def _run_commands(self, block: Block) -> None:
        text = self._replaced(block.text, absolute=False).replace("\\\n", " ")
        for line in text.splitlines():
            command = _COMMENT.sub("", line.removeprefix("$ ")).strip()
            if command and block.output is not None:
                assert self.execute(*shlex.split(command)[1:]) in _exit_codes(command), command
            elif command:
                self._run_command(command)

    def _run_command(self, command: str) -> None:
        tokens = list(shlex.shlex(command, posix=True, punctuation_chars="|>"))
        words = shlex.split(command)
        end = next((i for i, word in enumerate(words) if word in ("|", ">>", ">")), len(words))
        assert tokens[0] == "bayou", f"not a command of Bayou, give a reason: {command}"
        result = self.invoke(*words[1:end])
        self.output.append(result.output)
        assert result.exit_code in _exit_codes(command), f"{command}\n{result.output}"
        if words[end : end + 2] == ["|", "jq"]:
            for line in result.stdout.splitlines():
                json.loads(line)

    def _run_yaml(self, block: Block) -> None:
        """Check a configuration, or a part of one, with the command that users check it with."""
        text = self._replaced(block.text, absolute=False)
        for name in set(_VARIABLE.findall(text)) - os.environ.keys():
            self.setenv(name, _PASSWORD)
        for name in set(_FILE.findall(text)):
            self._create_file(Path(name))
        part = YAML(typ="safe").load(text)
        complete = part.get("connector", {})
        name = "part.yaml"
        if "kafka" in complete and "topics" in complete:
            name = "pipeline.yaml"  # the commands that follow use it
        else:
            text = json.dumps(self._completed(part))  # JSON is YAML
        (self.folder / name).write_text(text)
        result = self.invoke("validate", name)
        assert result.exit_code == 0, result.output

    def _create_file(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        certificate, key = _certificate()
        file.write_bytes(key if file.suffix == ".key" else certificate)

    def _completed(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration with this part: its keys are those of `connector` or a topic."""
        connector: dict[str, Any] = {"kafka": {"bootstrap-servers": self.broker}}
        if "topics" not in part.get("connector", part):
            topic = {
                "kafka-topic": "user.events.v1",
                "destination": {"table-path": "lake/user_events"},
            }
            connector["topics"] = {"user-events": topic}
        for key, value in part.get("connector", {}).items():
            _merge(connector, {key: value})
        for key in part.keys() - {"connector"}:
            _merge(connector, _nested((*_PLACES.get(key, _TOPIC), key), part[key]))
        for name, topic in connector["topics"].items():
            topic.setdefault("destination", {"table-path": f"lake/{name}"})
        return {"connector": connector}

    def _replaced(self, text: str, *, absolute: bool) -> str:
        lake = f"{self.lake}/"
        for store in _STORES:
            text = text.replace(store, lake)
        if absolute:  # Spark's JVM has another current folder
            text = _LAKE.sub(lambda _: lake, text)
            text = text.replace('"state/', f'"{self.folder}/state/')
        text = _SECRETS.sub(lambda _: f"{self.folder}/secrets/", text)
        text = text.replace(_BROKER, self.broker)
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        return text


@functools.cache
def _certificate() -> tuple[bytes, bytes]:
    """Return a self-signed certificate and its encrypted key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example.com")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(_PASSWORD.encode()),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), encrypted


def _exit_codes(command: str) -> tuple[int, ...]:
    """Return the exit codes of a command that succeeds."""
    return (0, 1) if command.startswith(_DIFFERENCES) else (0,)


def _nested(keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return value


def _merge(target: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
