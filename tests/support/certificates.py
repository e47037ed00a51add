"""A certificate authority of a test's own."""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

EXPIRED = timedelta(days=-1)
VALID = timedelta(days=30)


class Authority:
    """Signs certificates; its own is in the file `root`.

    Args:
        directory: a new one, for the files.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"authority {directory.name}")
        certificate = _builder(self._name, self._name, VALID).public_key(self._key.public_key())
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        signed = certificate.add_extension(constraint, critical=True).sign(self._key, hashes.SHA256())
        self.root = directory / "root.crt"
        self.root.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, ends_in: timedelta = VALID, hosts: tuple[str, ...] = ()) -> tuple[Path, Path]:
        """The files of a certificate and its key, which replace those of the same name.

        Args:
            name: the common name, for a client its login.
            ends_in: from now.
            hosts: names and addresses of a server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _builder(_name(name), self._name, ends_in).public_key(key.public_key())
        if hosts:
            certificate = certificate.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        signed = certificate.sign(self._key, hashes.SHA256())
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        files = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        for file, content in zip(files, (signed.public_bytes(serialization.Encoding.PEM), private), strict=True):
            fresh = file.with_suffix(".new")
            with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as opened:
                opened.write(content)
            fresh.replace(file)
        return files


def _builder(subject: x509.Name, issuer: x509.Name, ends_in: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    dated = x509.CertificateBuilder().not_valid_before(now - timedelta(days=60)).not_valid_after(now + ends_in)
    return dated.serial_number(x509.random_serial_number()).subject_name(subject).issuer_name(issuer)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
