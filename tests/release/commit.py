"""The commit that a release is made of: its files come from git's objects, so nothing else of the work tree is released."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from relaybox.errors import ConfigurationError
from tests.release.programs import run

VERSION_FILE = "plugins/relaybox/__init__.py"
NAMED_FILES = 5
"""An error names at most this many changed files."""

_OF_ANOTHER_CHECKOUT = ("GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE")
"""Variables that git sets for its hooks: with them git works on their repository, wherever it is called."""

_MODES = {"100644": 0o644, "100755": 0o755}


@dataclass(frozen=True)
class Commit:
    """A commit of the checkout `root`.

    Attributes:
        epoch: the committer's time, in seconds since 1970.
    """

    root: Path
    id: str
    epoch: int

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.epoch, UTC)

    def read(self, path: str) -> str:
        """A text file, as the commit has it."""
        return _git(self.root, "cat-file", "blob", f"{self.id}:{path}").decode()

    def version(self) -> str:
        """The library's `__version__`."""
        for statement in ast.parse(self.read(VERSION_FILE)).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=str(version))):
                    return version
        raise ConfigurationError(f"{VERSION_FILE} has no __version__.", next_step='Write __version__ = "0.0.0" and commit.')

    def write_files(self, directory: Path) -> None:
        """Writes all files, byte by byte: no attribute and no setting of git (line ends, export-ignore) changes one.

        Raises:
            ConfigurationError: the commit has a symbolic link or a submodule.
        """
        entries = [entry.split("\t", 1) for entry in _git(self.root, "ls-tree", "-r", "-z", self.id).decode().split("\0")[:-1]]
        files = [(path, *about.split()) for about, path in entries]
        contents = _git(
            self.root, "cat-file", "--batch", given="".join(f"{object_id}\n" for _, _, _, object_id in files).encode()
        )
        start = 0
        for path, mode, _, _ in files:
            if mode not in _MODES:
                raise ConfigurationError(
                    f"{path} is a symbolic link or a submodule (mode {mode}); a release carries files only.",
                    next_step="Replace it by a file and commit.",
                )
            header_end = contents.index(b"\n", start) + 1
            end = header_end + int(contents[start:header_end].split()[2])
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(contents[header_end:end])
            target.chmod(_MODES[mode])
            start = end + 1  # a line end follows each object


def last_commit(root: Path) -> Commit:
    """The last commit of a checkout whose work tree is as the commit.

    Raises:
        ConfigurationError: `root` is no checkout, or files differ from the commit, new ones included; ignored files may be there.
    """
    top = Path(_git(root, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    if top.resolve() != root.resolve():
        raise ConfigurationError(f"{root} is no checkout of its own, but a folder of {top}.", next_step="Clone the repository.")
    commit_id, epoch = _git(root, "show", "--no-patch", "--no-show-signature", "--format=%H %ct", "HEAD").decode().split()
    status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none")
    if changed := [entry[3:] for entry in _git(root, *status).decode(errors="backslashreplace").split("\0")[:-1]]:
        number = f"{len(changed)} file{'s' * (len(changed) > 1)}"
        more = f" and {len(changed) - NAMED_FILES} more" if len(changed) > NAMED_FILES else ""
        raise ConfigurationError(
            f"the work tree differs from commit {commit_id[:12]} in {number}: {', '.join(changed[:NAMED_FILES])}{more}.",
            next_step="Commit or remove them; git status lists them.",
        )
    return Commit(root, commit_id, int(epoch))


def check_tag(commit: Commit, version: str) -> str | None:
    """The tag that the version has at this commit, VERSION or vVERSION; None: it has no tag yet.

    Raises:
        ConfigurationError: the version is tagged at another commit.
    """
    listed = _git(commit.root, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname) %(*objectname)", "refs/tags")
    tags = {name: ids[-1] for name, *ids in map(str.split, listed.decode().splitlines())}  # an annotated tag's commit comes last
    found = {name: tags[name] for name in (version, f"v{version}") if name in tags}
    for name, tagged in found.items():
        if tagged != commit.id:
            raise ConfigurationError(
                f"version {version} is tagged already: tag {name} is at commit {tagged[:12]}, HEAD is at {commit.id[:12]}.",
                next_step=f"Write the next version into {VERSION_FILE}, or build the tagged one: git checkout {name}",
            )
    return next(iter(found), None)


def _git(root: Path, *arguments: str, given: bytes = b"") -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_CHECKOUT}
    return run(
        ["git", "--no-optional-locks", "--no-replace-objects", "-C", root, *arguments],
        root,
        {**environment, "LC_ALL": "C.UTF-8"},
        next_step="Run it in a clone of the repository that has a commit.",
        given=given,
    )
