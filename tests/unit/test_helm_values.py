"""docker/helm/values.yaml: its keys are those of Airflow's official Helm chart, and it says what the image and compose.yaml say.

The chart can't be had from a package registry, so no template is rendered here. CHART_KEYS are the names and types of the keys that are
used, as chart/values.schema.json of apache/airflow has them in commit 002e5532d7d55a375bbf71bd4e72d7e008635073 (November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import relaybox

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKER = REPOSITORY / "docker"

CHART_KEYS: dict[str, tuple[type, ...]] = {
    "executor": (str,),
    "airflowVersion": (str,),
    "images.airflow.repository": (str, type(None)),
    "images.airflow.digest": (str, type(None)),
    "images.airflow.tag": (str, type(None)),
    "images.airflow.pullPolicy": (str,),
    "uid": (int,),
    "gid": (int,),
    "securityContexts.pod": (dict,),
    "securityContexts.container": (dict,),
    "volumes": (list,),
    "volumeMounts": (list,),
    "env": (list,),
    "data.metadataSecretName": (str, type(None)),
    "fernetKeySecretName": (str, type(None)),
    "apiSecretKeySecretName": (str, type(None)),
    "jwtSecretName": (str, type(None)),
    "postgresql.enabled": (bool,),
    "config": (dict,),
    "scheduler.resources": (dict,),
    "scheduler.env": (list,),
    "scheduler.extraVolumes": (list,),
    "scheduler.extraVolumeMounts": (list,),
    "apiServer.defaultUser.enabled": (bool,),
    "apiServer.resources": (dict,),
    "apiServer.env": (list,),
    "apiServer.extraVolumes": (list,),
    "apiServer.extraVolumeMounts": (list,),
    "triggerer.persistence.enabled": (bool,),
    "triggerer.resources": (dict,),
    "triggerer.env": (list,),
    "triggerer.extraVolumes": (list,),
    "triggerer.extraVolumeMounts": (list,),
    "dagProcessor.enabled": (bool, type(None)),
    "dagProcessor.resources": (dict,),
    "workers.persistence.enabled": (bool,),
    "statsd.enabled": (bool,),
}
"""Path -> what the chart takes there. Below an object or a list that is named here are Kubernetes' own keys, or settings of Airflow."""

TEMPORARY = "/tmp"  # noqa: S108  the folder of a container, an empty volume

STORE_COMPONENTS = {"scheduler": "relaybox-tasks", "apiServer": "relaybox-page", "triggerer": "relaybox-page"}
"""Component that opens stores -> the secret with the connections of its login."""


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((DOCKER / "helm" / "values.yaml").read_text(encoding="utf-8"))
    return content


def used_keys(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each path down to a key of the chart, or to the leaf if no such key is on the way."""
    if path in CHART_KEYS or not isinstance(node, dict):
        yield path, node
        return
    for key, below in node.items():
        yield from used_keys(below, f"{path}.{key}".lstrip("."))


def test_each_key_is_one_of_the_chart_and_has_its_type(values: dict[str, Any]) -> None:
    used = dict(used_keys(values))
    assert sorted(used.keys() - CHART_KEYS.keys()) == [], "not a key of the chart"
    assert sorted(CHART_KEYS.keys() - used.keys()) == [], "used no more: take it out of CHART_KEYS"
    assert [path for path, value in used.items() if type(value) not in CHART_KEYS[path]] == []


def test_settings_of_airflow_are_plain_values_in_sections(values: dict[str, Any]) -> None:
    """The chart writes them into airflow.cfg."""
    settings = [setting for section in values["config"].values() for setting in section.values()]
    assert settings
    assert all(isinstance(setting, (str, int, bool)) for setting in settings)


def test_no_container_is_root_writes_to_its_image_or_has_a_capability(values: dict[str, Any]) -> None:
    """As `x-confined` of compose.yaml. No component has a context of its own, which would replace this one."""
    pod, container = values["securityContexts"]["pod"], values["securityContexts"]["container"]
    assert (pod["runAsNonRoot"], pod["runAsUser"], pod["runAsGroup"]) == (True, values["uid"], values["gid"])
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not [
        path for path, _ in all_paths(values) if path.count("securityContext") and not path.startswith("securityContexts")
    ]


def all_paths(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, node
    if isinstance(node, dict):
        for key, below in node.items():
            yield from all_paths(below, f"{path}.{key}".lstrip("."))
    elif isinstance(node, list):
        for number, below in enumerate(node):
            yield from all_paths(below, f"{path}[{number}]")


def test_the_values_agree_with_the_image(values: dict[str, Any]) -> None:
    """Its user, its versions, and where the DAGs and relaybox.yaml are."""
    dockerfile = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (\d+)$", dockerfile, flags=re.MULTILINE) == [str(values["uid"])]
    assert f"--uid {values['uid']} --gid {values['gid']}" in dockerfile
    lock = (DOCKER / "requirements.lock").read_text(encoding="utf-8")
    assert f"\napache-airflow=={values['airflowVersion']} " in lock
    assert values["images"]["airflow"]["tag"] == relaybox.__version__
    assert "dags_folder" not in values["config"]["core"], "the image has it in AIRFLOW__CORE__DAGS_FOLDER"
    assert "AIRFLOW__CORE__DAGS_FOLDER=" in dockerfile


def test_every_mount_has_its_volume_and_only_temporary_files_are_writable(values: dict[str, Any]) -> None:
    places = {"": (values["volumes"], values["volumeMounts"])}
    places |= {name: (values[name]["extraVolumes"], values[name]["extraVolumeMounts"]) for name in STORE_COMPONENTS}
    for name, (volumes, mounts) in places.items():
        assert {mount["name"] for mount in mounts} == {volume["name"] for volume in volumes}, name
        assert {mount["mountPath"] for mount in mounts if not mount.get("readOnly")} <= {TEMPORARY}, name
    (routes,) = [mount["mountPath"] for mount in values["volumeMounts"] if mount["name"] == "relaybox-routes"]
    assert values["env"] == [{"name": "RELAYBOX_CONFIG", "value": f"{routes}/relaybox.yaml"}]


def test_each_component_has_the_connections_of_its_login_and_no_secret_is_in_the_file(values: dict[str, Any]) -> None:
    for component, secret in STORE_COMPONENTS.items():
        (volume,) = values[component]["extraVolumes"]
        assert volume["secret"] == {"secretName": secret, "defaultMode": 0o440}
        (mount,) = values[component]["extraVolumeMounts"]
        variables = {entry["name"]: entry["value"] for entry in values[component]["env"]}
        assert f'"{mount["mountPath"]}/connections.yaml"' in variables["AIRFLOW__SECRETS__BACKEND_KWARGS"]
    assert "extraVolumes" not in values["dagProcessor"]
    assert [path for path, _ in all_paths(values) if re.search(r"(password|secretKey|fernetKey|jwtSecret|pass)$", path)] == []


def test_each_component_says_what_it_needs(values: dict[str, Any]) -> None:
    for component in (*STORE_COMPONENTS, "dagProcessor"):
        assert {"cpu", "memory"} == set(values[component]["resources"]["requests"])
        assert "memory" in values[component]["resources"]["limits"]
