"""Makes the files of a release from the last commit: sdist, wheel, SBOM, release notes and checksums.

They are in dist/relaybox-VERSION, all of them or none: a run that fails or is killed changes nothing there.
VERSION is that of plugins/relaybox/__init__.py. Two builds of a commit with one version of Python are equal,
byte by byte, wherever and whenever they run. Nothing is tagged and nothing is sent.

It refuses a work tree that differs from the commit, a version without a dated section in CHANGELOG.md, and a
version that has a tag at another commit.
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from relaybox.errors import ConfigurationError
from relaybox.local.scratch import remove_abandoned, scratch_directory
from tests.release.commit import Commit, check_tag, last_commit
from tests.release.distributions import build_distributions
from tests.release.notes import cut_notes
from tests.release.traces import check_traces, find_index_traces

ROOT = Path(__file__).resolve().parents[2]
SUMS = "SHA256SUMS"


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: the files are there. 2: refused; stderr says why, and the next step."""
    parser = argparse.ArgumentParser(
        prog="make release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    try:
        release(ROOT, ROOT / "dist")
    except ConfigurationError as error:
        print(f"make release: {error}", file=sys.stderr)
        return 2
    return 0


def release(root: Path, dist: Path) -> None:
    """Checks, builds in a directory of its own below `dist`, and moves the finished folder to its place.

    Raises:
        ConfigurationError: it is refused, or a build failed; `dist` is as before.
    """
    began = time.monotonic()
    dist.mkdir(exist_ok=True)
    remove_abandoned(say, dist)
    commit = last_commit(root)
    version = commit.version()
    say(f"Relaybox {version} of commit {commit.id[:12]}, {commit.moment:%Y-%m-%d %H:%M:%S} UTC")
    notes = cut_notes(commit.read("CHANGELOG.md"), version)
    check_tag(commit, version)
    with scratch_directory("release", dist) as work:
        built = work / f"relaybox-{version}"
        built.mkdir()
        build(commit, version, notes, built, work)
        tag = check_tag(commit, version)  # again: others may have tagged meanwhile
        target = dist / built.name
        say(f"{publish(built, target, work)} {target}, {time.monotonic() - began:.0f} s:")
    for file in sorted(target.iterdir()):
        say(f"  {file.stat().st_size:>9,} bytes  {file.name}")
    say(f"Tag {tag} is at this commit." if tag else f"Next: git tag --annotate {version} {commit.id[:12]}")


def build(commit: Commit, version: str, notes: str, built: Path, work: Path) -> None:
    """Writes all files of the release into `built`."""
    from tests.release.sbom import make_sbom  # CycloneDX takes 2 s to import; a refusal comes at once

    source = work / "source"
    commit.write_files(source)
    say("SBOM ...")
    sbom = make_sbom(source, work, version=version, moment=commit.moment)
    (built / f"relaybox-{version}.cdx.json").write_text(sbom, encoding="utf-8")
    (built / "RELEASE_NOTES.md").write_text(notes, encoding="utf-8")
    say("sdist, and the wheel of it ...")
    build_distributions(source, built, work, epoch=commit.epoch)
    say("Checksums ...")
    files = sorted(built.iterdir())
    check_traces(files, [*find_index_traces(), commit.root, work, sys.prefix])
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (built / SUMS).write_text(sums, encoding="utf-8")


def publish(built: Path, target: Path, work: Path) -> str:
    """Moves the finished folder to its place; what it did, as a word. Equal files are left as they are."""
    if not target.exists():
        built.rename(target)
        return "New:"
    names = sorted({file.name for folder in (built, target) for file in folder.iterdir()})
    if filecmp.cmpfiles(built, target, names, shallow=False)[0] == names:
        return "Unchanged, each byte as before:"
    target.rename(work / "replaced")
    built.rename(target)
    return "Replaced, the build before was another one:"


def say(line: str) -> None:
    """A line of progress, at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
