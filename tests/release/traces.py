"""Traces of the machine that built a release: hosts of package indexes, and paths. No file of a release has one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from relaybox.errors import ConfigurationError

_ANYWHERE = ("localhost", "127.0.0.1", "::1")
"""Hosts of an index that documents name for other reasons."""

_URL = re.compile(r"""(?:https?|file)://[^\s'",)]+""")


def find_index_traces() -> set[str]:
    """Hosts and folders of the package indexes that pip and uv use here: pip's default, and those of settings and variables."""
    pip = [sys.executable, "-m", "pip"]
    default = subprocess.run([*pip, "install", "--help"], capture_output=True, text=True, check=True).stdout
    settings = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=True).stdout
    told = re.findall(r"\(default:?\s+(https?://[^\s)]+)", default)
    told += _URL.findall(settings)
    told += [url for name, value in os.environ.items() if name.startswith(("PIP_", "UV_")) for url in _URL.findall(value)]
    parts = [urlsplit(url) for url in told]
    return {part.hostname or part.path for part in parts} - {*_ANYWHERE}


def check_traces(files: Iterable[Path], traces: Iterable[str | Path]) -> None:
    """Looks into every file, and every file inside archives.

    A path of one part, as /relaybox, is not looked for: texts have such words.

    Raises:
        ConfigurationError: a file has one; with its name and the line.
    """
    words = sorted({str(trace) for trace in traces if not (str(trace).startswith("/") and str(trace).count("/") == 1)})
    pattern = re.compile(rb"(?<!\w)(?:%s)(?!\w)" % b"|".join(re.escape(word.encode()) for word in words))
    for name, content in _contents(files):
        if found := pattern.search(content):
            line = content.count(b"\n", 0, found.start()) + 1
            raise ConfigurationError(
                f"{name}, line {line}, names {found[0].decode()}: an index or a path of this machine.",
                next_step="Remove it from the file that it comes from, and commit.",
            )


def _contents(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for file in files:
        if file.suffix == ".whl":
            with zipfile.ZipFile(file) as wheel:
                yield from ((f"{file.name}/{name}", wheel.read(name)) for name in wheel.namelist())
        elif file.name.endswith(".tar.gz"):
            with tarfile.open(file) as sdist:
                for member in sdist:
                    if extracted := sdist.extractfile(member):
                        yield f"{file.name}/{member.name}", extracted.read()
        else:
            yield file.name, file.read_bytes()
