"""Why a server refused a connection: by SQLSTATE and by the status of libpq, never by words, which have a language.

libpq keeps the SQLSTATE of a refused connection to itself, and psycopg2 has none either. A second attempt asks libpq for errors of
the form `FATAL:  28P01`.
"""

from __future__ import annotations

import ctypes
import functools
import re
import select
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from relaybox.stores.sessions.certificates import UNKNOWN, CertificateCheck, check_certificates

REFUSAL_SECONDS = 5.0
"""The second attempt gives up after this time: then nothing more is known."""

_BAD, _MADE, _AWAITING_RESPONSE, _SSL_STARTUP = 1, 3, 4, 7  # ConnStatusType
_READING, _WRITING = 1, 2  # PostgresPollingStatusType; any other one is the end
_SQLSTATES_ONLY = 3  # PGVerbosity

_CODE = re.compile(r":\s+([0-9A-Z]{5})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Refusal:
    """What the second attempt learned.

    Attributes:
        sqlstates: one for each address whose server refused; empty where no server answered.
        needs_password: the server asked for a password, and libpq had none.
        is_misconfigured: libpq did not try to connect: the service file or a parameter is wrong.
        failed_in_tls: the server lives, TLS is required, and it was not agreed.
        certificates: what is known against a certificate, where it failed in TLS.
        login, database: as libpq asked for them, where the login may not connect to the database; else empty.
    """

    sqlstates: tuple[str, ...] = ()
    needs_password: bool = False
    is_misconfigured: bool = False
    failed_in_tls: bool = False
    certificates: CertificateCheck = UNKNOWN
    login: str = ""
    database: str = ""

    @property
    def is_final(self) -> bool:
        """Whether a retry gives the same answer, until the configuration, the login or the server's rules change."""
        said_no = bool(self.sqlstates) and all(code in _FINAL_CODES or code[:2] in _FINAL_CLASSES for code in self.sqlstates)
        return said_no or self.needs_password or self.failed_in_tls

    @property
    def lacks_right(self) -> bool:
        """Whether the server knows the login, and it may not connect to the database."""
        return _NO_RIGHT in self.sqlstates

    @property
    def rejects_login(self) -> bool:
        """Whether other credentials may be accepted."""
        return self.needs_password or any(code[:2] in _FINAL_CLASSES for code in self.sqlstates)


_NO_RIGHT = "42501"  # insufficient_privilege: no right to connect
_FINAL_CODES = frozenset(
    {
        "0A000",  # feature_not_supported
        "22023",  # invalid_parameter_value
        "3D000",  # invalid_catalog_name: there is no such database
        _NO_RIGHT,
        "42704",  # undefined_object: an unknown setting in `options`
    }
)
_FINAL_CLASSES = frozenset({"28"})  # invalid_authorization_specification


def ask_again(parameters: Mapping[str, object], *, seconds: float = REFUSAL_SECONDS) -> Refusal:
    """Connects a second time with the same parameters of libpq, only to learn why the first attempt failed.

    Connects and disconnects at once where the cause has passed: then it knows nothing, and a retry is right.
    """
    libpq = _libpq()
    names, values = list(parameters), [str(value) for value in parameters.values()]
    array = ctypes.c_char_p * (len(names) + 1)
    connection = libpq.PQconnectStartParams(
        array(*(name.encode() for name in names), None), array(*(value.encode() for value in values), None), 0
    )
    if not connection:
        return Refusal()
    try:
        if not libpq.PQhost(connection):
            return Refusal(is_misconfigured=True)
        libpq.PQsetErrorVerbosity(connection, _SQLSTATES_ONLY)
        ended_in = _poll(libpq, connection, time.monotonic() + seconds)
        if libpq.PQstatus(connection) != _BAD:
            return Refusal()
        sqlstates = tuple(_CODE.findall(libpq.PQerrorMessage(connection).decode(errors="replace")))
        needs_password = bool(libpq.PQconnectionNeedsPassword(connection))
        if sqlstates or needs_password or ended_in not in (_SSL_STARTUP, _MADE, _AWAITING_RESPONSE):
            if _NO_RIGHT not in sqlstates:
                return Refusal(sqlstates, needs_password)
            login, database = (text.decode(errors="replace") for text in (libpq.PQuser(connection), libpq.PQdb(connection)))
            return Refusal(sqlstates, needs_password, login=login, database=database)
        return _judge_tls(libpq, connection, ended_in, seconds)
    finally:
        libpq.PQfinish(connection)


def _poll(libpq: ctypes.CDLL, connection: int, ends_at: float) -> int:
    """Drives the attempt to its end; the status that it failed in, or 0."""
    waits_for, status = _WRITING, libpq.PQstatus(connection)
    while status != _BAD and waits_for in (_READING, _WRITING) and (left := ends_at - time.monotonic()) > 0:
        poll = select.poll()
        poll.register(libpq.PQsocket(connection), select.POLLIN if waits_for == _READING else select.POLLOUT)
        if not poll.poll(left * 1000):
            break
        before = libpq.PQstatus(connection)
        waits_for = libpq.PQconnectPoll(connection)
        status = libpq.PQstatus(connection)
        if status == _BAD:
            return int(before)
    return 0


def _judge_tls(libpq: ctypes.CDLL, connection: int, ended_in: int, seconds: float) -> Refusal:
    """Whether TLS is what the attempt failed for.

    Where TLS is not required, libpq goes on without, and a server that ends the connection in the middle is one that starts or stops.
    After TLS was agreed, only an alert of the server's tells a certificate that it refuses from a server that stops.
    """
    options = _options(libpq, connection)
    if options.get("sslmode") not in ("require", "verify-ca", "verify-full"):
        return Refusal()
    address = (libpq.PQhostaddr(connection).decode(), int(libpq.PQport(connection)))
    check = check_certificates(address, libpq.PQhost(connection).decode(), options, seconds=seconds)
    has_failed = check.was_answered if ended_in == _SSL_STARTUP else bool(check.alert)
    return Refusal(failed_in_tls=True, certificates=check) if has_failed else Refusal()


def _options(libpq: ctypes.CDLL, connection: int) -> dict[str, str]:
    """The parameters that are in force, wherever they come from."""
    options = libpq.PQconninfo(connection)
    values: dict[str, str] = {}
    try:
        index = 0
        while options and options[index].keyword:
            if options[index].value:
                values[options[index].keyword.decode()] = options[index].value.decode()
            index += 1
    finally:
        libpq.PQconninfoFree(options)
    return values


class _Option(ctypes.Structure):
    """PQconninfoOption."""

    _fields_ = (
        ("keyword", ctypes.c_char_p),
        ("envvar", ctypes.c_char_p),
        ("compiled", ctypes.c_char_p),
        ("value", ctypes.c_char_p),
        ("label", ctypes.c_char_p),
        ("dispchar", ctypes.c_char_p),
        ("dispsize", ctypes.c_int),
    )


@functools.cache
def _libpq() -> ctypes.CDLL:
    """The libpq that psycopg2 itself uses, with its service files, certificates and settings."""
    libpq = ctypes.CDLL(import_module("psycopg2._psycopg").__file__)
    texts = ctypes.POINTER(ctypes.c_char_p)
    for name, result, arguments in (
        ("PQconnectStartParams", ctypes.c_void_p, [texts, texts, ctypes.c_int]),
        ("PQconnectPoll", ctypes.c_int, [ctypes.c_void_p]),
        ("PQstatus", ctypes.c_int, [ctypes.c_void_p]),
        ("PQsocket", ctypes.c_int, [ctypes.c_void_p]),
        ("PQhost", ctypes.c_char_p, [ctypes.c_void_p]),
        ("PQhostaddr", ctypes.c_char_p, [ctypes.c_void_p]),
        ("PQport", ctypes.c_char_p, [ctypes.c_void_p]),
        ("PQuser", ctypes.c_char_p, [ctypes.c_void_p]),
        ("PQdb", ctypes.c_char_p, [ctypes.c_void_p]),
        ("PQconninfo", ctypes.POINTER(_Option), [ctypes.c_void_p]),
        ("PQconninfoFree", None, [ctypes.POINTER(_Option)]),
        ("PQsetErrorVerbosity", ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
        ("PQerrorMessage", ctypes.c_char_p, [ctypes.c_void_p]),
        ("PQconnectionNeedsPassword", ctypes.c_int, [ctypes.c_void_p]),
        ("PQfinish", None, [ctypes.c_void_p]),
    ):
        function = getattr(libpq, name)
        function.restype, function.argtypes = result, arguments
    return libpq
