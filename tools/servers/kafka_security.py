"""Authentication of a test's Kafka broker: user, password, and a self-signed certificate."""

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
    """Additional listeners: SASL without TLS, SASL with TLS, and TLS with client certificates.

    The first two accept PLAIN and SCRAM-SHA-512, with the same username and password, and
    OAUTHBEARER with unsigned tokens. The third requires the certificate `client_certificate`.

    Attributes:
        folder: folder for key and certificate.
        username, password: credentials of the only user.
        port: port of SASL_PLAINTEXT.
        tls_port: port of SASL_SSL.
        mutual_tls_port: port of SSL with client certificates.
    """

    folder: Path
    username: str
    password: str
    port: int
    tls_port: int
    mutual_tls_port: int

    @classmethod
    def of(cls, folder: Path, username: str, password: str) -> KafkaSecurity:
        """Create a key with its certificate, and return the listeners that use them.

        Raises:
            ServerError: Java's keytool failed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        security = cls(
            folder=folder,
            username=username,
            password=password,
            port=free_port(),
            tls_port=free_port(),
            mutual_tls_port=free_port(),
        )
        made = ["-genkeypair", "-keyalg", "RSA", "-keysize", "2048", "-validity", "2"]
        security._keytool(*made, "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1")
        security._keytool("-exportcert", "-rfc", "-file", str(security.certificate))
        security._create_client_key()
        return security

    @property
    def certificate(self) -> Path:
        """PEM file of the certificate that clients must trust."""
        return self.folder / "certificate.pem"

    @property
    def client_certificate(self) -> Path:
        """PEM file of the certificate that the mutual TLS listener requires."""
        return self.folder / "client.pem"

    @property
    def client_key(self) -> Path:
        """PEM file of the client certificate's key, encrypted with `password`."""
        return self.folder / "client.key"

    @property
    def mutual_tls_bootstrap_servers(self) -> str:
        """Bootstrap servers of the listener that requires a client certificate."""
        return f"127.0.0.1:{self.mutual_tls_port}"

    @property
    def bootstrap_servers(self) -> str:
        """Bootstrap servers of the SASL_PLAINTEXT listener."""
        return f"127.0.0.1:{self.port}"

    @property
    def tls_bootstrap_servers(self) -> str:
        """Bootstrap servers of the SASL_SSL listener."""
        return f"127.0.0.1:{self.tls_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of all listeners."""
        return (self.port, self.tls_port, self.mutual_tls_port)

    @property
    def listeners(self) -> str:
        """Entries for the broker's `listeners`."""
        return (
            f"SASL_PLAINTEXT://127.0.0.1:{self.port},SASL_SSL://127.0.0.1:{self.tls_port},"
            f"MUTUAL_TLS://127.0.0.1:{self.mutual_tls_port}"
        )

    def settings(self) -> dict[str, str]:
        """The broker's settings other than `listeners`."""
        named = f'username="{self.username}" password="{self.password}"'
        plain = f"{_MODULES}.plain.PlainLoginModule required {named}"
        plain += f' user_{self.username}="{self.password}";'
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        token = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        token += 'unsecuredLoginStringClaim_sub="broker";'
        settings = {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,MUTUAL_TLS:SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "ssl.keystore.location": str(self._keystore),
            "ssl.keystore.password": _KEYSTORE_PASSWORD,
            "ssl.key.password": _KEYSTORE_PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "listener.name.mutual_tls.ssl.client.auth": "required",
            "listener.name.mutual_tls.ssl.truststore.location": str(self.client_certificate),
            "listener.name.mutual_tls.ssl.truststore.type": "PEM",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = plain
            settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = scram
            settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = token
        return settings

    def format_arguments(self) -> list[str]:
        """Return arguments of `kafka-storage format` that create the user."""
        return ["--add-scram", f"SCRAM-SHA-512=[name={self.username},password={self.password}]"]

    @property
    def _keystore(self) -> Path:
        return self.folder / "keystore.p12"

    def _create_client_key(self) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj"]
        command += ["/CN=bayou", "-passout", f"pass:{self.password}"]
        command += ["-keyout", str(self.client_key), "-out", str(self.client_certificate)]
        _run(command, "openssl req")

    def _keytool(self, *arguments: str) -> None:
        home = os.environ.get("JAVA_HOME")
        command = [f"{home}/bin/keytool" if home else "keytool", *arguments]
        command += ["-alias", "broker", "-keystore", str(self._keystore)]
        command += ["-storetype", "PKCS12", "-storepass", _KEYSTORE_PASSWORD]
        _run(command, f"keytool {arguments[0]}")


def _run(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode:
        raise ServerError(f"{name} failed: {done.stdout}{done.stderr}")
