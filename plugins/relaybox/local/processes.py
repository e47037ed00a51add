"""Servers as child processes: they end with the process that started them, and can be ended for sure."""

from __future__ import annotations

import functools
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relaybox.process_lifetime import child_dies_with_parent

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Account:
    """An operating system user."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """Who runs servers that refuse to run as root: None (this user) unless this process is root's."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def as_account(account: Account | None) -> dict[str, Any]:
    """Keyword arguments for subprocess that make the child run as `account`."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def spawn(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    log: Path,
    cwd: Path | None = None,
    account: Account | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """Starts a server in a process group of its own; `death_signal` reaches it when this process dies, however it dies.

    Its output is appended to `log`.
    """
    prepare = child_dies_with_parent(death_signal)

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509  it makes two system calls and takes no lock
                **as_account(account),
            )

    return _starter().submit(start).result()


@functools.cache
def _starter() -> ThreadPoolExecutor:
    """One thread that lives as long as this process: the kernel takes the end of the starting thread for the parent's death."""
    return ThreadPoolExecutor(1, thread_name_prefix="relaybox-starter")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    state = _stat_fields(pid)
    return bool(state) and state[0] not in {"Z", "X"}


def working_directory(pid: int) -> Path | None:
    """Where a process works; None when it is gone or belongs to another user."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def processes_in(directory: Path) -> list[int]:
    """Who works in a directory or below it, as a server does in its data directory; only root sees those of other users."""
    found = directory.resolve()
    return [pid for pid in _all_pids() if (cwd := working_directory(pid)) and cwd.is_relative_to(found) and is_alive(pid)]


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    return [process for process in _all_pids() if _stat_fields(process)[1:2] == [str(pid)]]


def descendants(pid: int) -> list[int]:
    """All living processes below a process, whatever their group."""
    found = [child for child in children(pid) if is_alive(child)]
    for child in tuple(found):
        found += descendants(child)
    return found


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process and of all below it, those that have ended and were waited for included."""
    ticks = sum(int(tick) for process in (pid, *descendants(pid)) for tick in _stat_fields(process)[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def trees_cpu_seconds(pids: Sequence[int]) -> list[float]:
    """The same for several trees, in one pass over all processes; a tree within another one is a part of both."""
    stats = {pid: fields for pid in _all_pids() if (fields := _stat_fields(pid))}
    below: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        below.setdefault(int(fields[1]), []).append(pid)

    def ticks(pid: int) -> int:
        own = sum(int(tick) for tick in stats[pid][11:15]) if pid in stats else 0
        return own + sum(map(ticks, below.get(pid, [])))

    return [ticks(pid) / os.sysconf("SC_CLK_TCK") for pid in pids]


def process_cpu_seconds(pid: int) -> float:
    """CPU time of a process alone; 0 when it is gone."""
    return sum(int(tick) for tick in _stat_fields(pid)[11:13]) / os.sysconf("SC_CLK_TCK")


def _all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on (state, parent, group, ...); empty when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return stat.rpartition(")")[2].split()


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signals a process; one that is gone already is fine."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def wait_until_gone(pids: Sequence[int], *, deadline_seconds: float) -> list[int]:
    """Waits until none of the processes lives; returns those that still do at the deadline."""
    deadline = time.monotonic() + deadline_seconds
    while alive := [pid for pid in pids if is_alive(pid)]:
        if time.monotonic() > deadline:
            return alive
        time.sleep(_POLL_SECONDS)
    return []
