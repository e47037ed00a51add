"""Iceberg's own files, written durably: a catalog must never name a file that a power failure takes away."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType

from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from relaybox.spark.lake.files import flush, flush_new_directory

_S3 = {"s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION")}


def s3_properties(configured: Mapping[str, str]) -> dict[str, str]:
    """Where the object store is, as other libraries take it from the environment; what the catalog says itself goes before."""
    found = {key: next((os.environ[name] for name in names if os.environ.get(name)), None) for key, names in _S3.items()}
    return {key: value for key, value in found.items() if value is not None and key not in configured}


class FlushingFileIO(PyArrowFileIO):
    """A FileIO of pyiceberg that flushes what it writes to a disk of this machine, before the catalog names it."""

    def new_output(self, location: str) -> OutputFile:  # type: ignore[override]
        return _FlushedFile(super().new_output(location))


class _FlushedFile(OutputFile):
    def __init__(self, file: OutputFile) -> None:
        super().__init__(file.location)
        self.file = file

    def __len__(self) -> int:
        return len(self.file)

    def exists(self) -> bool:
        return self.file.exists()

    def to_input_file(self) -> InputFile:
        return self.file.to_input_file()

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002  the signature is pyiceberg's
        return _FlushedStream(self.file.create(overwrite), self.location)


class _FlushedStream(OutputStream):
    def __init__(self, stream: OutputStream, location: str) -> None:
        self.stream = stream
        self.location = location

    def write(self, b: bytes) -> int:
        return self.stream.write(b)

    def tell(self) -> int:
        return self.stream.tell()

    def close(self) -> None:
        self.stream.close()
        flush(self.location)
        flush_new_directory(self.location.rpartition("/")[0])

    def __enter__(self) -> OutputStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
