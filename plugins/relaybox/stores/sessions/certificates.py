"""Whether a certificate is what a TLS handshake with a server fails for, by the alert and the codes of TLS.

libpq keeps to itself why TLS failed. In TLS 1.3 a server checks the client's certificate after the client has done its part: libpq sees a
connection that ends, as if the server had stopped. So the handshake is done once more here, with the same files.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from relaybox.log_events import emit

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)


@dataclass(frozen=True)
class CertificateCheck:
    """What the handshake showed.

    Attributes:
        was_answered: the server answered the question for TLS.
        server_problem: why its certificate is not accepted here; empty: nothing against it is known.
        alert: with which the server ended the handshake; empty: with none.
    """

    was_answered: bool = False
    server_problem: str = ""
    alert: str = ""


UNKNOWN = CertificateCheck()


def check_certificates(address: tuple[str, int], host: str, options: Mapping[str, str], *, seconds: float) -> CertificateCheck:
    """Asks the server for TLS, and does the handshake with the files that libpq would take.

    Args:
        address: numeric, and the port.
        host: as verify-full compares it.
        options: of libpq: sslmode, sslrootcert, sslcert, sslkey, sslpassword.
        seconds: in which each answer must come.
    """
    try:
        with socket.create_connection(address, timeout=seconds) as link:
            link.sendall(_SSL_REQUEST)
            answer = link.recv(1)
            if answer != b"S":
                return CertificateCheck(was_answered=answer == b"N")
            return _shake_hands(link, host, options)
    except OSError as error:
        emit("tls_not_answered", host=address[0], port=address[1], error=error)
        return UNKNOWN


def _shake_hands(link: socket.socket, host: str, options: Mapping[str, str]) -> CertificateCheck:
    try:
        context = _context(options)
    except (OSError, ValueError) as error:  # libpq's own message names the file that can't be used
        emit("certificate_files_not_read", host=host, error=error)
        return CertificateCheck(was_answered=True)
    try:
        with context.wrap_socket(link, server_hostname=host) as session:
            session.recv(1)  # sends nothing: a server that has gone would answer with a reset, which overtakes its alert
    except TimeoutError:
        return CertificateCheck(was_answered=True)  # it accepts the certificate, and waits for the login
    except ssl.SSLCertVerificationError as error:
        return CertificateCheck(was_answered=True, server_problem=error.verify_message)
    except ssl.SSLError as error:
        return CertificateCheck(was_answered=True, alert=_alert(error))
    return CertificateCheck(was_answered=True)


def _context(options: Mapping[str, str]) -> ssl.SSLContext:
    """As libpq checks a server: not at all below verify-ca, and its name with verify-full only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    mode, roots = options.get("sslmode"), options.get("sslrootcert")
    context.check_hostname = mode == "verify-full"
    if mode not in ("verify-ca", "verify-full") or not roots:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif roots == "system":
        context.load_default_certs()
    else:
        context.load_verify_locations(roots)
    if certificate := options.get("sslcert"):
        # a key with a password would ask for it at the terminal
        context.load_cert_chain(certificate, options.get("sslkey"), password=lambda: options.get("sslpassword", ""))
    return context


def _alert(error: ssl.SSLError) -> str:
    """`certificate expired` for SSLV3_ALERT_CERTIFICATE_EXPIRED: OpenSSL's name of the alert's number, which has no language."""
    _, is_alert, name = (error.reason or "").partition("_ALERT_")
    return name.replace("_", " ").lower() if is_alert else ""
