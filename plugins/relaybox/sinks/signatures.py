"""Signatures of webhooks, as the Standard Webhooks specification 1.0 says."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence

from relaybox.errors import ConfigurationError

PREFIX = "whsec_"
SHORTEST_SECRET_BYTES, LONGEST_SECRET_BYTES = 24, 64
"""As the specification says."""


def read_secret(text: str, where: str) -> bytes:
    """Returns the bytes of a secret: base64, with `whsec_` before it or without.

    Args:
        text: of the secret. No error shows it.
        where: the name that relaybox.yaml has for it, for errors.

    Raises:
        ConfigurationError: it is not base64, or not of 24 to 64 bytes.
    """
    try:
        secret = b64decode(text.strip().removeprefix(PREFIX), validate=True)
    except ValueError:  # binascii.Error is one; what is not ASCII raises another one
        secret = b""
    if not SHORTEST_SECRET_BYTES <= len(secret) <= LONGEST_SECRET_BYTES:
        found = f"{len(secret)} bytes" if secret else "no base64"
        raise ConfigurationError(
            f"secret {where}: it is {found}; expected {PREFIX} and {SHORTEST_SECRET_BYTES} to {LONGEST_SECRET_BYTES} bytes in base64.",
            next_step=f'Make one: echo "{PREFIX}$(openssl rand -base64 32)"',
        )
    return secret


def sign(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Returns the header webhook-signature: a signature of each secret, so that a receiver with any of them accepts it."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{b64encode(hmac.digest(secret, signed, 'sha256')).decode()}" for secret in secrets)
