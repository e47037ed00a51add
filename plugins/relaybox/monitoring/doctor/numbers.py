"""Numbers in the sentences of the checks."""

from __future__ import annotations


def show_bytes(count: int) -> str:
    """512 bytes, 16.0 MiB, 1.2 GiB."""
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def show_duration(seconds: float) -> str:
    """35 s, 12 min, 5 h, 3 d."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
