"""`make release`: two builds of a commit are equal, hold what the commit has and nothing else, and what they hold works where it is installed."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

import psycopg2
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import relaybox
from relaybox.errors import ConfigurationError
from relaybox.local.scratch import PREFIX
from tests.release.__main__ import publish
from tests.release.commit import Commit, check_tag, last_commit
from tests.release.notes import cut_notes
from tests.release.sbom import read_lock
from tests.release.traces import check_traces, find_index_traces
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
VERSION = relaybox.__version__
NAMES = {
    "RELEASE_NOTES.md",
    "SHA256SUMS",
    f"relaybox-{VERSION}-py3-none-any.whl",
    f"relaybox-{VERSION}.cdx.json",
    f"relaybox-{VERSION}.tar.gz",
}
SHIPPED = {
    "docs/runbooks": "relaybox/runbook_pages",
    "plugins/relaybox": "relaybox",
    "spark_apps": "relaybox/spark_apps",
    "sql": "relaybox/sql",
}
"""Folders of the repository, and where the wheel has them."""

COMMITTED = {"GIT_COMMITTER_DATE": "2026-11-24T12:00:00+0100", "GIT_AUTHOR_DATE": "2026-11-24T12:00:00+0100"}
COMMIT_TIME = "2026-11-24T11:00:00Z"


def git(directory: Path, *arguments: str, **variables: str) -> str:
    """git without the settings of this machine."""
    names = {f"GIT_{role}_{key}": "relay@example.com" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    environment = {**os.environ, **names, **variables, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(
        ["git", *arguments], cwd=directory, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


def copy_checkout(directory: Path) -> Path:
    """The files of this work tree as the one commit of a new repository; of the tests only the program. Its changelog has the version."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")[:-1]
    for name in listed:
        if (ROOT / name).exists() and re.match(r"(?!tests/)|tests/(release/|__init__.py)", name):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    write_changelog(directory, "Unreleased", f"{VERSION} - 2026-11-24")
    git(directory, "init", "--quiet")
    commit_all(directory)
    return directory


def write_changelog(directory: Path, *headings: str) -> None:
    sections = "".join(f"## {heading}\n\n### Added\n\n- What {heading} adds.\n\n" for heading in headings)
    (directory / "CHANGELOG.md").write_text(f"# Changelog\n\n{sections}")


def commit_all(directory: Path) -> None:
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "Release", **COMMITTED)


def start(checkout: Path, *, umask: int = 0o022, **variables: str) -> subprocess.Popen[str]:
    """`make release` of a checkout, in this Python."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.release"],
        cwd=checkout,
        env={**os.environ, **variables},
        umask=umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def make_release(checkout: Path, *, umask: int = 0o022, **variables: str) -> Path:
    """The finished folder."""
    process = start(checkout, umask=umask, **variables)
    told, errors = process.communicate(timeout=patience(120))
    assert process.returncode == 0, told + errors
    assert f"New: {checkout}/dist/relaybox-{VERSION}" in told
    assert f"Next: git tag --annotate {VERSION}" in told
    assert [path.name for path in (checkout / "dist").iterdir()] == [f"relaybox-{VERSION}"]
    return checkout / "dist" / f"relaybox-{VERSION}"


def refusal(checkout: Path) -> str:
    """Why `make release` refuses a checkout; it leaves nothing."""
    before = {path: path.stat().st_mtime_ns for path in checkout.glob("dist/*/*")}
    process = start(checkout)
    told, why = process.communicate(timeout=patience(60))
    assert process.returncode == 2, told + why
    assert why.startswith("make release: ")
    assert {path: path.stat().st_mtime_ns for path in checkout.glob("dist/*/*")} == before
    assert not [*checkout.glob(f"dist/{PREFIX}*")]
    return why


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    """The release of a checkout that has caches, too."""
    for ignored in ("plugins/relaybox/__pycache__/left.pyc", "sql/.ruff_cache/left", "docs/runbooks/metastore_db/left"):
        (checkout / ignored).parent.mkdir(parents=True, exist_ok=True)
        (checkout / ignored).write_text("left")
    return make_release(checkout, TZ="UTC", LC_ALL="C.UTF-8")


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(built / f"relaybox-{VERSION}-py3-none-any.whl")


def shipped(checkout: Path) -> dict[str, bytes]:
    """Contents of the committed files of SHIPPED, by path."""
    return {name: (checkout / name).read_bytes() for name in git(checkout, "ls-files", *SHIPPED).splitlines()}


def test_two_builds_are_equal_byte_by_byte(built: Path, checkout: Path, tmp_path: Path) -> None:
    """The second is of a clone that nobody else may read, of other age, below other settings of git, shell and machine."""
    second = tmp_path / "zweiter Bau für später"
    subprocess.run(["git", "clone", "--quiet", checkout, second], check=True, umask=0o077)
    git(second, "config", "core.autocrlf", "true")
    (second / ".git/info/attributes").write_text("* export-ignore\n")
    git(second, "update-index", "--assume-unchanged", "sql/grants.sql")
    (second / "sql/grants.sql").write_text("-- changed, and hidden from git status")
    for path in second.glob("plugins/**/*.py"):
        os.utime(path, (10**9, 10**9))
    again = make_release(
        second,
        umask=0o077,
        TZ="Pacific/Chatham",
        LC_ALL="C",
        SOURCE_DATE_EPOCH="1700000000",
        PYTHONHASHSEED="7",
        GIT_DIR=str(ROOT / ".git"),
    )
    assert {path.name for path in built.iterdir()} == {path.name for path in again.iterdir()} == NAMES
    assert [name for name in sorted(NAMES) if (built / name).read_bytes() != (again / name).read_bytes()] == []


def test_the_checksums_are_those_of_all_files(built: Path) -> None:
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=built, capture_output=True, text=True, check=True
    )
    assert {line.removesuffix(": OK") for line in checked.stdout.splitlines()} == NAMES - {"SHA256SUMS"}


def test_the_wheel_has_the_files_of_the_commit_and_no_others(wheel: zipfile.ZipFile, checkout: Path) -> None:
    expected = {}
    for name, content in shipped(checkout).items():
        (folder,) = [folder for folder in SHIPPED if name.startswith(f"{folder}/")]
        expected[SHIPPED[folder] + name.removeprefix(folder)] = content
    about = f"relaybox-{VERSION}.dist-info/"
    assert {name: wheel.read(name) for name in wheel.namelist() if not name.startswith(about)} == expected
    assert {
        "relaybox/airflow/page/templates/map.html",
        "relaybox/py.typed",
        "relaybox/runbook_pages/dead-letters.md",
        "relaybox/spark_apps/transfer.py",
        "relaybox/sql/schema.sql",
    } <= expected.keys()
    assert wheel.read(f"{about}licenses/LICENSE") == (checkout / "LICENSE").read_bytes()


def test_the_sdist_has_what_the_wheel_is_built_of_and_no_tests(built: Path, checkout: Path) -> None:
    with tarfile.open(built / f"relaybox-{VERSION}.tar.gz") as sdist:
        contents = {
            member.name.removeprefix(f"relaybox-{VERSION}/"): file.read()
            for member in sdist
            if (file := sdist.extractfile(member))
        }
        assert {member.mode for member in sdist} <= {0o644, 0o755}
    assert contents.pop("PKG-INFO")
    top = {name: (checkout / name).read_bytes() for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore")}
    assert contents == {**shipped(checkout), **top}


def test_the_wheel_says_airflow_and_the_shell_what_to_load(wheel: zipfile.ZipFile) -> None:
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(f"relaybox-{VERSION}.dist-info/entry_points.txt").decode())
    assert {name: dict(entry_points[name]) for name in entry_points.sections()} == {
        "airflow.plugins": {"relaybox": "relaybox.airflow.plugin:RelayboxPlugin"},
        "apache_airflow_provider": {"provider_info": "relaybox.airflow.provider:get_provider_info"},
        "console_scripts": {"relaybox": "relaybox.cli:main"},
        "pytest11": {"relaybox": "relaybox.testing.plugin"},
    }


def test_the_sbom_has_every_locked_package_with_its_hashes(built: Path, checkout: Path) -> None:
    bom = json.loads((built / f"relaybox-{VERSION}.cdx.json").read_text())
    blocks = re.findall(
        r"^([\w.-]+==[^\s;]+)(.*(?:\n    --hash=.*)+)", (checkout / "requirements.lock").read_text(), flags=re.MULTILINE
    )
    locked = {reference: set(re.findall(r"sha256:(\w{64})", rest)) for reference, rest in blocks}
    assert len(locked) > 200
    components = {component["bom-ref"]: component for component in bom["components"]}
    hashes = {
        reference: {one["content"] for link in component["externalReferences"] for one in link["hashes"]}
        for reference, component in components.items()
    }
    assert hashes == locked
    assert bom["metadata"]["component"]["purl"] == f"pkg:pypi/relaybox@{VERSION}"
    assert bom["metadata"]["timestamp"] == COMMIT_TIME
    assert uuid.UUID(bom["serialNumber"]).version == 5
    by_name = {component["name"]: component for component in bom["components"]}
    scopes = {"sqlalchemy": "optional", "apache-airflow": "optional", "pyspark": "optional", "ruff": "excluded"}
    assert {name: by_name[name]["scope"] for name in scopes} == scopes
    assert by_name["sqlalchemy"]["licenses"] == [{"license": {"acknowledgement": "declared", "id": "MIT"}}]
    unlicensed = [reference for reference, component in components.items() if "licenses" not in component]
    assert len(unlicensed) < len(components) / 20, unlicensed


def test_the_graph_of_the_sbom_is_that_of_the_installed_packages(built: Path) -> None:
    """What a package here needs on this Python without an extra, the SBOM says too."""
    bom = json.loads((built / f"relaybox-{VERSION}.cdx.json").read_text())
    graph = {one["ref"].split("==")[0]: {name.split("==")[0] for name in one["dependsOn"]} for one in bom["dependencies"]}
    assert {"psycopg2-binary", "pydantic", "typer"} <= graph["relaybox"]
    for package in ("apache-airflow-core", "pydantic", "sqlalchemy", "typer", "pytest"):
        assert requirements_of(package) <= graph[package], package


def requirements_of(package: str) -> set[str]:
    parsed = map(Requirement, metadata.requires(package) or ())
    return {canonicalize_name(one.name) for one in parsed if not one.marker or one.marker.evaluate({"extra": "cli"})}


def test_a_lock_line_with_a_marker_is_for_some_pythons() -> None:
    old, new = read_lock(
        "numpy==1.0 ; python_full_version < '3' \\\n    --hash=sha256:0\n    # via\n    #   pandas\n    #   relaybox (pyproject.toml)\n"
        "numpy==2.0 ; python_full_version >= '3' \\\n    --hash=sha256:1\n    # via pandas\n"
    )
    assert (old.is_for_this_python(), new.is_for_this_python()) == (False, True)
    assert (old.needed_by, new.needed_by) == ({"pandas", "relaybox (pyproject.toml)"}, {"pandas"})


def test_an_installed_wheel_moves_messages_without_a_checkout(
    built: Path, tmp_path: Path, databases: Mapping[str, Mapping[str, str]]
) -> None:
    """In a bare venv that has only what the wheel says it needs: no Airflow, no Spark, no tool of this one."""
    elsewhere, bare = tmp_path / "elsewhere", tmp_path / "bare"
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    python = bare / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--python", python]
    (wheel,) = built.glob("*.whl")
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel], cwd=elsewhere, check=True)
    (site,) = bare.glob("lib/python*/site-packages")
    link_packages(requirements_of_wheel(site), site)
    subprocess.run([*pip, "check"], cwd=elsewhere, check=True, stdout=subprocess.PIPE)
    (elsewhere / "relaybox.yaml").write_text(
        yaml.safe_dump(
            {"stores": {"airline": {}, "hub": {}}, "routes": {"flights": {"topics": ["flights"], "path": ["airline", "hub"]}}}
        )
    )
    environment = {name: os.environ[name] for name in ("PATH", "PGSERVICEFILE")} | {"HOME": str(elsewhere)}

    def told(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=elsewhere, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert VERSION in told(bare / "bin" / "relaybox", "version")
    assert "hub" in told(bare / "bin" / "relaybox", "init")
    with psycopg2.connect(service="airline") as source, source.cursor() as cursor:
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'one'), ('flights', 'UA', 'two')"
        )
    told(bare / "bin" / "relaybox", "transfer", "flights/1")
    with psycopg2.connect(service="hub") as destination, destination.cursor() as cursor:
        cursor.execute("select payload from relaybox.read_log('flights/1', 0, 10)")
        assert cursor.fetchall() == [("one",), ("two",)]


def requirements_of_wheel(site: Path) -> set[str]:
    """Names of the packages that the command line of an installed wheel needs, with those that they need."""
    (relaybox_there,) = metadata.distributions(name="relaybox", path=[str(site)])
    parsed = map(Requirement, relaybox_there.requires or ())
    waiting = {canonicalize_name(one.name) for one in parsed if not one.marker or one.marker.evaluate({"extra": "cli"})}
    found: set[str] = set()
    while waiting:
        found |= waiting
        waiting = {needed for name in waiting for needed in requirements_of(name)} - found
    return found


def link_packages(names: Iterable[str], site: Path) -> None:
    """The files of packages of this venv, by links into another one."""
    for name in names:
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            (site / top).symlink_to(str(distribution.locate_file(top)))


def test_a_killed_build_leaves_nothing_half_written(checkout: Path, built: Path) -> None:
    """Its directory is removed by the next run, also by one that refuses."""
    before = {path.name: path.read_bytes() for path in built.iterdir()}
    process = start(checkout)
    wait_until(lambda: [*checkout.glob(f"dist/{PREFIX}*/relaybox-{VERSION}")] != [], "the build has begun")
    process.kill()
    process.communicate()
    assert {path.name: path.read_bytes() for path in built.iterdir()} == before
    (checkout / "forgotten.py").touch()

    def is_removed() -> bool:
        """As soon as the last program of the killed run has ended."""
        start(checkout).communicate(timeout=patience(60))
        return not [*checkout.glob(f"dist/{PREFIX}*")]

    wait_until(is_removed, "the directory of the killed run is removed")
    (checkout / "forgotten.py").unlink()


@pytest.fixture
def clone(checkout: Path, tmp_path: Path) -> Path:
    """A checkout that a test may change."""
    git(tmp_path, "clone", "--quiet", str(checkout), "clone")
    return tmp_path / "clone"


def test_a_work_tree_that_differs_is_refused(clone: Path) -> None:
    """New files too, also where git is told not to show them."""
    git(clone, "config", "status.showUntrackedFiles", "no")
    (clone / "sql" / "forgotten.sql").touch()
    commit = git(clone, "rev-parse", "HEAD")[:12]
    assert refusal(clone) == (
        f"make release: the work tree differs from commit {commit} in 1 file: sql/forgotten.sql. "
        "Commit or remove them; git status lists them.\n"
    )
    for number in range(5):
        (clone / f"left{number}.py").touch()
    (clone / "README.md").unlink()
    assert "in 7 files: README.md, left0.py, left1.py, left2.py, left3.py and 2 more." in refusal(clone)


@pytest.mark.parametrize(
    ("headings", "why"),
    [
        (["Unreleased"], f"CHANGELOG.md has 0 sections of version {VERSION}; its sections: Unreleased."),
        ([f"{VERSION} - unreleased"], f'CHANGELOG.md, line 3: "{VERSION} - unreleased" has no day of release.'),
    ],
)
def test_a_version_without_a_dated_section_is_refused(clone: Path, headings: list[str], why: str) -> None:
    write_changelog(clone, *headings)
    commit_all(clone)
    told = refusal(clone)
    assert why in told
    assert f'Head the section of this release "## {VERSION} - YYYY-MM-DD"' in told


@pytest.mark.parametrize("name", ["1.0.0", "v1.0.0"])
@pytest.mark.parametrize("kind", [[], ["--annotate", "--message", "Release"]])
def test_a_version_that_is_tagged_at_another_commit_is_refused(tmp_path: Path, name: str, kind: list[str]) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "Release")
    assert check_tag(last_commit(tmp_path), "1.0.0") is None
    git(tmp_path, "tag", *kind, name)
    assert check_tag(last_commit(tmp_path), "1.0.0") == name
    assert check_tag(last_commit(tmp_path), "1.0") is None
    tagged = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "Later")
    with pytest.raises(ConfigurationError, match=f"tag {name} is at commit {tagged[:12]}.* git checkout {name}"):
        check_tag(last_commit(tmp_path), "1.0.0")


def test_a_tag_at_another_commit_ends_the_command(clone: Path) -> None:
    git(clone, "tag", VERSION)
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "Later")
    assert f"version {VERSION} is tagged already" in refusal(clone)


def test_what_is_no_checkout_is_refused(clone: Path) -> None:
    """Also where it is a folder of one: its parent's commit has other files."""
    (clone / ".git").rename(clone.parent / ".git")
    assert f"{clone} is no checkout of its own, but a folder of {clone.parent}. Clone the repository." in refusal(clone)
    shutil.rmtree(clone.parent / ".git")
    assert "Run it in a clone of the repository that has a commit." in refusal(clone)


def test_a_release_is_made_of_the_files_of_the_commit(clone: Path, tmp_path: Path) -> None:
    """With their modes, and whatever the work tree has; a symbolic link is refused."""
    (clone / "sql" / "grants.sql").write_text("-- changed")
    last = Commit(clone, git(clone, "rev-parse", "HEAD"), 0)
    last.write_files(tmp_path / "files")
    git(clone, "checkout", "--quiet", "sql/grants.sql")
    listed = [line.split(maxsplit=3) for line in git(clone, "ls-files", "--stage").splitlines()]
    written = {path for path in (tmp_path / "files").rglob("*") if path.is_file()}
    assert written == {tmp_path / "files" / name for _, _, _, name in listed}
    for mode, _, _, name in listed:
        assert (tmp_path / "files" / name).read_bytes() == (clone / name).read_bytes()
        assert (tmp_path / "files" / name).stat().st_mode & 0o777 == int(mode, 8) & 0o777
    (clone / "sql" / "link.sql").symlink_to("/etc/hostname")
    commit_all(clone)
    with pytest.raises(ConfigurationError, match=r"sql/link.sql is a symbolic link or a submodule \(mode 120000\)"):
        last_commit(clone).write_files(tmp_path / "more")


@pytest.mark.parametrize("heading", ["1.0.0 - 2026-12-01", "[1.0.0] - 2026-12-01"])
def test_notes_are_the_section_of_the_version(heading: str) -> None:
    """A heading within a block of code is none."""
    text = f"# Changelog\n\n## Unreleased\n\n- Later.\n\n## {heading}\n\n- This.\n\n```md\n## 0.9.0\n```\n\n## 0.9.0 - 2026-01-01\n\n- Before.\n"
    assert cut_notes(text, "1.0.0") == "# Relaybox 1.0.0, 2026-12-01\n\n- This.\n\n```md\n## 0.9.0\n```\n"


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ("", "0 sections of version 1.0.0; its sections: none."),
        ("## 1.0.01 - 2026-12-01\n\n- This.\n", "0 sections of version 1.0.0; its sections: 1.0.01 - 2026-12-01."),
        ("## 1.0.0 - 2026-12-01\n\n- This.\n\n" * 2, "2 sections of version 1.0.0"),
        ("## 1.0.0 - 2026-13-01\n\n- This.\n", 'line 3: "1.0.0 - 2026-13-01" has no day of release.'),
        ("## 1.0.0\n\n- This.\n", 'line 3: "1.0.0" has no day of release.'),
        ("## 1.0.0 - 2026-12-01\n\n## 0.9.0 - 2026-01-01\n", 'line 3: the section "1.0.0 - 2026-12-01" is empty.'),
    ],
)
def test_notes_are_refused_with_the_line(sections: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        cut_notes(f"# Changelog\n\n{sections}", "1.0.0")


def test_hosts_of_indexes_and_paths_of_the_machine_are_found_in_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_INDEX", "https://reader:secret@packages.example.org file:///srv/wheels")
    found = find_index_traces()
    assert {"packages.example.org", "/srv/wheels"} < found
    assert any("." in host for host in found - {"packages.example.org"})  # pip's own
    traces = ["packages.example.org", "/srv/wheels", "/srv"]
    plain, archive, sdist = tmp_path / "SHA256SUMS", tmp_path / "a.whl", tmp_path / "a.tar.gz"
    plain.write_text("a page at /srv/index.html, and my/srv/wheels\nnot packages.example.organ\n")
    check_traces([plain], traces)
    plain.write_text("one\nsee packages.example.org, page a\n")
    with zipfile.ZipFile(archive, "w") as wheel:
        wheel.writestr("a.dist-info/direct_url.json", "file:///srv/wheels/a")
    with tarfile.open(sdist, "w:gz") as tar:
        tar.add(plain, "a/PKG-INFO")
    for file, why in (
        (plain, "SHA256SUMS, line 2, names packages.example.org"),
        (archive, "a.whl/a.dist-info/direct_url.json, line 1, names /srv/wheels"),
        (sdist, "a.tar.gz/a/PKG-INFO, line 2, names packages.example.org"),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(why)):
            check_traces([file], traces)


def test_a_release_takes_the_place_of_another_as_a_whole(tmp_path: Path) -> None:
    """Equal files stay as they are; of another build no file is left."""
    target = tmp_path / "relaybox-1"

    def built(**files: str) -> tuple[Path, Path]:
        work = tmp_path / f"work{len([*tmp_path.iterdir()])}"
        (work / "relaybox-1").mkdir(parents=True)
        for name, content in files.items():
            (work / "relaybox-1" / name).write_text(content)
        return work / "relaybox-1", work

    def publish_files(**files: str) -> str:
        finished, work = built(**files)
        return publish(finished, target, work)

    assert publish_files(notes="1", wheel="1").startswith("New")
    inode = target.stat().st_ino
    assert publish_files(notes="1", wheel="1").startswith("Unchanged")
    assert target.stat().st_ino == inode
    assert publish_files(notes="2", sums="1").startswith("Replaced")
    assert {path.name: path.read_text() for path in target.iterdir()} == {"notes": "2", "sums": "1"}
