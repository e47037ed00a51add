"""A manifest of a folder of Parquet files: which files one batch added, and which stream positions they have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, ValidationError

DIRECTORY = "_manifests"
"""Below the path of the table. Readers of folders pass over names that begin with _ or a point."""
_NAME = re.compile(r"(\d{20})\.json")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ManifestFile(_Strict):
    """A file of the batch; `path` is below that of the table. `partition`: as WrittenFile says."""

    path: str
    bytes: int
    messages: int
    first: int
    last: int
    partition: str | None


class Manifest(_Strict):
    """A version of the table: what it adds to the one before. Version 0 adds nothing and says where the table begins.

    Attributes:
        version: dense, from 0; also its name.
        export, stream, store_id: whose the table is.
        first, last: the stream positions that it adds, both ends included; none if last is below first.
        partition_by: as in relaybox.yaml.
        columns: of each file: name and type of Arrow, in their order.
        attempt: whose files they are; None: of version 0.
        files: that it adds.
    """

    version: int
    export: str
    stream: str
    store_id: str
    first: int
    last: int
    partition_by: str
    columns: dict[str, str]
    attempt: str | None
    files: list[ManifestFile]


def encode_manifest(manifest: Manifest) -> bytes:
    """One line of JSON."""
    return f"{manifest.model_dump_json()}\n".encode()


def decode_manifest(content: bytes) -> Manifest:
    """The manifest of that text.

    Raises:
        ValueError: it is no whole manifest; the text says why.
    """
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error


def manifest_name(version: int) -> str:
    """The name of a version's file."""
    return f"{version:020}.json"


def find_versions(names: Iterable[str]) -> list[int]:
    """The versions whose manifests are there, in their order."""
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def find_missing(versions: list[int]) -> int | None:
    """The lowest version that is missing below the newest one."""
    return next((expected for expected, version in enumerate(versions) if version != expected), None)
