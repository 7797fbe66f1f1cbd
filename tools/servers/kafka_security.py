"""How clients log in to a test's Kafka broker: a user, a password, and a certificate of its own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from servers.process import ServerError, free_port

__all__ = ["KafkaSecurity"]

_MODULES = "org.apache.kafka.common.security"
_KEYSTORE_PASSWORD = "for-tests-only"  # noqa: S105  # of a key that lives as long as a test
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """Two listeners beside the open one: a user's password, in clear and over TLS.

    PLAIN and SCRAM-SHA-512 are let in, by the same name and password.

    Attributes:
        folder: where key and certificate go.
        username, password: of the only user.
        port: of SASL_PLAINTEXT.
        tls_port: of SASL_SSL.
    """

    folder: Path
    username: str
    password: str
    port: int
    tls_port: int

    @classmethod
    def of(cls, folder: Path, username: str, password: str) -> KafkaSecurity:
        """Make a key and its certificate.

        Raises:
            ServerError: Java's keytool can't.
        """
        folder.mkdir(parents=True, exist_ok=True)
        security = cls(
            folder=folder,
            username=username,
            password=password,
            port=free_port(),
            tls_port=free_port(),
        )
        made = ["-genkeypair", "-keyalg", "RSA", "-keysize", "2048", "-validity", "2"]
        security._keytool(*made, "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1")
        security._keytool("-exportcert", "-rfc", "-file", str(security.certificate))
        return security

    @property
    def certificate(self) -> Path:
        """What clients must trust, a PEM file."""
        return self.folder / "certificate.pem"

    @property
    def bootstrap_servers(self) -> str:
        """The address that asks for a password, in clear."""
        return f"127.0.0.1:{self.port}"

    @property
    def tls_bootstrap_servers(self) -> str:
        """The address that asks for a password, over TLS."""
        return f"127.0.0.1:{self.tls_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Of all its listeners."""
        return (self.port, self.tls_port)

    @property
    def listeners(self) -> str:
        """For the broker's `listeners`."""
        return f"SASL_PLAINTEXT://127.0.0.1:{self.port},SASL_SSL://127.0.0.1:{self.tls_port}"

    def settings(self) -> dict[str, str]:
        """The broker's settings beside `listeners`."""
        named = f'username="{self.username}" password="{self.password}"'
        plain = f"{_MODULES}.plain.PlainLoginModule required {named}"
        plain += f' user_{self.username}="{self.password}";'
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        settings = {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "ssl.keystore.location": str(self._keystore),
            "ssl.keystore.password": _KEYSTORE_PASSWORD,
            "ssl.key.password": _KEYSTORE_PASSWORD,
            "ssl.keystore.type": "PKCS12",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = plain
            settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = scram
        return settings

    def format_arguments(self) -> list[str]:
        """What the storage is formatted with, so that it knows the user."""
        return ["--add-scram", f"SCRAM-SHA-512=[name={self.username},password={self.password}]"]

    @property
    def _keystore(self) -> Path:
        return self.folder / "keystore.p12"

    def _keytool(self, *arguments: str) -> None:
        home = os.environ.get("JAVA_HOME")
        command = [f"{home}/bin/keytool" if home else "keytool", *arguments]
        command += ["-alias", "broker", "-keystore", str(self._keystore)]
        command += ["-storetype", "PKCS12", "-storepass", _KEYSTORE_PASSWORD]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
        if done.returncode:
            raise ServerError(f"keytool {arguments[0]} failed: {done.stdout}{done.stderr}")
