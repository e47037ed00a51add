"""The libpq service file: where it is, and what is wrong with it where libpq can't use it."""

from __future__ import annotations

import os
from pathlib import Path


def service_file_path() -> Path:
    """The file of PGSERVICEFILE, or else that of this user."""
    return Path(os.environ.get("PGSERVICEFILE") or Path.home() / ".pg_service.conf")


def has_section(service: str) -> bool:
    """Whether the file has the service. libpq looks into a file of the machine too, where the file of this user has it not."""
    try:
        return _has_section(service, service_file_path().read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return False


def correct_service(service: str) -> str:
    """What to do where libpq could not use a service: as the file says, not as libpq words it."""
    path = service_file_path()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "Set PGSERVICEFILE to the path of the service file, as this user may read it (default ~/.pg_service.conf)."
    if not _has_section(service, text):
        return f"Add a section [{service}] to the file that PGSERVICEFILE names (default ~/.pg_service.conf)."
    return f"Correct section [{service}] of the service file: each line is parameter=value, as libpq knows the parameter."


def _has_section(service: str, text: str) -> bool:
    return f"[{service}]" in (line.strip() for line in text.splitlines())
