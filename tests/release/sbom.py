"""The SBOM, in CycloneDX's JSON: every package of requirements.lock with its hashes, its licenses, what it depends on and who needs it.

cyclonedx-py reads the lock file, and the licenses of the installed packages. Three things it leaves out are added here, from the
same files: the graph of dependencies (the lock's "# via"), each package's scope, and a serial number and a time that a second
build gets too. What differs between machines is removed: hosts of package indexes, line numbers.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from relaybox.errors import ConfigurationError
from tests.release.programs import run_module

SPECIFICATION = SchemaVersion.V1_6
PROJECT = "relaybox"
_ROOT = "relaybox (pyproject.toml)"
"""What the lock file calls the project."""

_LOCKED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.+?))? \\$")


@dataclass
class LockedPackage:
    """A package of the lock file, and the names of the packages that need it."""

    name: str
    version: str
    marker: Marker | None
    needed_by: set[str] = field(default_factory=set)

    @property
    def reference(self) -> str:
        return f"{self.name}=={self.version}"

    def is_for_this_python(self) -> bool:
        return self.marker is None or self.marker.evaluate()


def make_sbom(source: Path, work: Path, *, version: str, moment: datetime) -> str:
    """The SBOM of the lock file in `source`; `moment` is the time that it states.

    Raises:
        ConfigurationError: this Python has not the packages of the lock file, or CycloneDX's schema refuses the SBOM.
    """
    packages = {package.reference: package for package in read_lock((source / "requirements.lock").read_text(encoding="utf-8"))}
    bom = _read("requirements", "requirements.lock", "--pyproject", "pyproject.toml", source=source, work=work, moment=moment)
    licenses = _licenses_here(packages, _read("environment", sys.executable, source=source, work=work, moment=moment))
    scopes = _scopes(packages, tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"])
    bom["components"] = [_component(one, scopes, licenses) for one in bom["components"]]
    listed = [one["bom-ref"] for one in bom["components"]]
    if sorted(listed) != sorted(packages):
        differing = ", ".join(sorted({*listed} ^ packages.keys()))
        raise ConfigurationError(
            f"cyclonedx-py and relaybox read requirements.lock differently: {differing}.", next_step="make lock"
        )
    root = f"{PROJECT}=={version}"
    about = bom["metadata"]["component"]
    bom["metadata"] = {
        "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "tools": {"components": [_without_references(tool) for tool in bom["metadata"]["tools"]["components"]]},
        "component": {**about, "bom-ref": root, "version": version, "purl": f"pkg:pypi/{PROJECT}@{version}"},
        "properties": bom["metadata"]["properties"],
    }
    bom["dependencies"] = _dependencies(packages, root)
    bom["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(bom, sort_keys=True)).urn
    text = json.dumps(bom, indent=2, sort_keys=True) + "\n"
    if error := JsonStrictValidator(SPECIFICATION).validate_str(text):
        raise ConfigurationError(f"the SBOM is no CycloneDX {SPECIFICATION.to_version()}: {error}.", next_step="Correct sbom.py.")
    return text


def read_lock(text: str) -> list[LockedPackage]:
    """The packages of a lock file of uv, with what its lines "# via" say."""
    packages: list[LockedPackage] = []
    for line in text.splitlines():
        if found := _LOCKED.match(line):
            marker = Marker(found["marker"]) if found["marker"] else None
            packages.append(LockedPackage(canonicalize_name(found["name"]), found["version"], marker))
        elif needed_by := re.match(r"    #(?: via|  ) +(.+)", line):
            packages[-1].needed_by.add(needed_by[1])
    return packages


def _read(kind: str, *arguments: str, source: Path, work: Path, moment: datetime) -> Any:
    """What cyclonedx-py says of a lock file ("requirements") or of the packages of a Python ("environment")."""
    file = work / f"{kind}.json"
    options = ("--no-validate", "--output-reproducible", "--sv", SPECIFICATION.to_version(), "--of", "JSON", "-o", file)
    run_module("cyclonedx_py", kind, *arguments, *options, directory=source, epoch=int(moment.timestamp()))
    return json.loads(file.read_text(encoding="utf-8"))


def _licenses_here(packages: Mapping[str, LockedPackage], installed: Any) -> dict[str, Any]:
    """The licenses that installed packages declare, by reference.

    Those of a package for another Python or system are unknown.
    """
    found = {_reference(one): one.get("licenses", []) for one in installed["components"] if "version" in one}
    missing = [name for name, package in packages.items() if package.is_for_this_python() and name not in found]
    if missing:
        raise ConfigurationError(
            f"{sys.prefix} lacks {len(missing)} packages of requirements.lock: {', '.join(missing[:5])}.",
            next_step="Run: make venv",
        )
    return {name: licenses for name, licenses in found.items() if name in packages and licenses}


def _component(one: Any, scopes: Mapping[str, str], licenses: Mapping[str, Any]) -> dict[str, Any]:
    """A component of which the hashes are those of the files that the lock file allows."""
    reference = _reference(one)
    files = [
        {
            "type": "distribution",
            "url": one["purl"],
            "comment": "the files that requirements.lock allows",
            "hashes": link["hashes"],
        }
        for link in one["externalReferences"]
    ]
    kept = {key: one[key] for key in ("name", "version", "purl", "type")}
    declared = {"licenses": licenses[reference]} if reference in licenses else {}
    return {**kept, **declared, "bom-ref": reference, "scope": scopes[reference], "externalReferences": files}


def _scopes(packages: Mapping[str, LockedPackage], project: Any) -> dict[str, str]:
    """required: of every installation; optional: of an extra; excluded: of development only."""
    extras = project["optional-dependencies"]
    required = _closure(packages, project["dependencies"])
    optional = _closure(packages, [text for name, texts in extras.items() if name != "dev" for text in texts])
    return {
        reference: "required" if package.name in required else "optional" if package.name in optional else "excluded"
        for reference, package in packages.items()
    }


def _closure(packages: Mapping[str, LockedPackage], requirements: Iterable[str]) -> set[str]:
    needs = defaultdict(set)
    for package in packages.values():
        for name in package.needed_by:
            needs[name].add(package.name)
    reached: set[str] = set()
    waiting = {str(canonicalize_name(Requirement(text).name)) for text in requirements}
    while waiting:
        reached |= waiting
        waiting = {needed for name in waiting for needed in needs[name]} - reached
    return reached


def _dependencies(packages: Mapping[str, LockedPackage], root: str) -> list[dict[str, Any]]:
    """What each package needs, with all its extras that the lock file uses."""
    return [
        {"ref": reference, "dependsOn": sorted(one.reference for one in packages.values() if name in one.needed_by)}
        for reference, name in sorted({root: _ROOT, **{key: package.name for key, package in packages.items()}}.items())
    ]


def _reference(component: Any) -> str:
    return f"{canonicalize_name(component['name'])}=={component['version']}"


def _without_references(tool: Any) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if key != "externalReferences"}
