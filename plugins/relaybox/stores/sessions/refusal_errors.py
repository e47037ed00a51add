"""The error of ours for a connection that a server refused, with what to correct."""

from __future__ import annotations

import re

from relaybox import errors
from relaybox.stores.sessions.certificates import CertificateCheck
from relaybox.stores.sessions.credentials import Renewal
from relaybox.stores.sessions.poolers import POOLER_CODE, advise_direct, in_service_file
from relaybox.stores.sessions.refusals import Refusal
from relaybox.stores.sessions.service_files import correct_service

_TOO_MANY_CONNECTIONS = "53300"


def refusal_error(service: str, said: str, refusal: Refusal, renewal: Renewal | None = None) -> errors.RelayboxError:
    """Terminal where a retry gives the same answer.

    Args:
        service: of libpq.
        said: by libpq.
        refusal: what a second attempt learned.
        renewal: of the credentials, since they were refused; None where nobody renews them.
    """
    said = _sentence(said)
    if refusal.is_misconfigured:
        return errors.ConfigurationError(f"store {service}: {said}", next_step=correct_service(service))
    if refusal.failed_in_tls:
        return _tls_error(service, said, refusal.certificates)
    if renewal is not None and refusal.rejects_login:
        return _login_error(service, said, renewal)
    if refusal.is_final and refusal.lacks_right and refusal.login:
        return errors.StoreUnusable(
            f"store {service}: the server refused the connection: {said}",
            next_step=f"As the owner of the database: grant connect on database {_quoted(refusal.database)} to {_quoted(refusal.login)}; "
            f"If the login has this right: `options` in section [{service}] of the service file sets what it may not set.",
        )
    if refusal.is_final:
        return errors.StoreUnusable(
            f"store {service}: the server refused the connection: {said}",
            next_step=f"Correct user, password and dbname in section [{service}] of the service file.",
        )
    return _passing_error(service, said, refusal)


def _passing_error(service: str, said: str, refusal: Refusal) -> errors.StoreUnreachable:
    """A retry may succeed."""
    if POOLER_CODE in refusal.sqlstates:
        return errors.StoreUnreachable(
            f"store {service}: no connection: a connection pooler answered: {said}",
            next_step=advise_direct(in_service_file(service)),
        )
    if _TOO_MANY_CONNECTIONS in refusal.sqlstates:
        return errors.StoreUnreachable(
            f"store {service}: no connection is left: {said}",
            next_step="See who has them: select usename, application_name, count(*) from pg_stat_activity group by 1, 2; "
            "Close connections, put a pooler before applications, or raise the limit of the login, the database or the server.",
        )
    return errors.StoreUnreachable(
        f"store {service}: no connection: {said}",
        next_step=f"Check that the server runs, and host and port in section [{service}] of the service file.",
    )


def _tls_error(service: str, said: str, check: CertificateCheck) -> errors.StoreUnusable:
    """Terminal: each retry shows and gets the same certificates, until a file is replaced."""
    section = f"section [{service}] of the service file"
    if check.server_problem:
        return errors.StoreUnusable(
            f"store {service}: the server's certificate is not accepted: {check.server_problem}: {said}",
            next_step=f"Renew the server's certificate, or correct sslrootcert and host in {section}.",
        )
    if check.alert:
        return errors.StoreUnusable(
            f"store {service}: the server refused the client's certificate: {check.alert}: {said}",
            next_step=f"Replace the files that sslcert and sslkey in {section} name. "
            "When it ends: openssl x509 -noout -subject -enddate -in SSLCERT",
        )
    return errors.StoreUnusable(
        f"store {service}: TLS was not agreed: {said}",
        next_step=f"Compare sslmode, sslrootcert, sslcert and sslkey in {section} with the server's.",
    )


def _login_error(service: str, said: str, renewal: Renewal) -> errors.RelayboxError:
    """A retry helps where fresh credentials could not be had, or where the server has just stopped to accept the login."""
    if renewal.failure:
        return errors.StoreUnreachable(
            f"store {service}: the server refused the login: {said} {renewal.source} gave no fresh credentials: {renewal.failure}.",
            next_step="If its secrets backend or token service is not down, correct the connection.",
        )
    if renewal.was_admitted:
        return errors.StoreUnreachable(
            f"store {service}: the server refused a login that it accepted before, also with fresh credentials: {said}",
            next_step=f"If the password is being changed, the retry succeeds. If not, correct {renewal.source}.",
        )
    return errors.StoreUnusable(
        f"store {service}: the server refused the connection, also with fresh credentials: {said}",
        next_step=f"Correct login and password of {renewal.source}, or the login's rights in the server.",
    )


def _quoted(name: str) -> str:
    """A name as SQL, in quotes where it may need them."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else '"{}"'.format(name.replace('"', '""'))


def _sentence(said: str) -> str:
    """libpq ends some messages with a question, most with nothing."""
    return said if said.endswith((".", "?", "!")) else f"{said}."
