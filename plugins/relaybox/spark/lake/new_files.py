"""Creates a file if there is none of its name: on a disk by a hard link, in an object store by a conditional put.

Of two callers at once one creates it, and nobody ever reads a part of it. So a commit can be one file.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore import exceptions
from pyarrow import fs  # type: ignore[import-untyped]

from relaybox.errors import LakeFailed, LakeRefused
from relaybox.object_stores import open_object_store
from relaybox.spark.lake.files import lake_errors, open_lake

TEMPORARY = ".tmp"
"""How the name of a file ends that a killed process may leave, in the directory of the file that it was about to create."""
_OBJECT_STORES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


def is_object_store(path: str) -> bool:
    """Whether a path is the URI of an object store."""
    return path.startswith(_OBJECT_STORES)


def create_file(path: str, content: bytes) -> bool:
    """Creates a file, whole, if there is none of its name. On a disk its content is flushed, and its name is not.

    Returns:
        Whether this call has created it. False may also mean that it did, and that the answer to its first request was lost.

    Raises:
        LakeRefused: the place can't do that, or does not let this login.
        LakeFailed: the file may be there or not.
    """
    if is_object_store(path):
        return _put_object(path, content)
    system, inner = open_lake(path)
    if not isinstance(system, fs.LocalFileSystem):
        raise LakeRefused(
            f"lake {path}: this file system can't create a file only if there is none. So two runs could both commit.",
            next_step="Export to a directory of a disk or to s3://, gs:// or az://; or use to: iceberg, whose catalog decides.",
        )
    with lake_errors(path, "creating it"):
        return _link_file(Path(inner), content)


def require_conditional_puts(directory: str) -> None:
    """Tries it out: an object store that ignores the condition of a put lets two runs commit the same batch.

    Args:
        directory: where an object is created twice and removed.

    Raises:
        LakeRefused, LakeFailed: as create_file(), and if the second put replaced the first one.
    """
    if not is_object_store(directory):
        return
    probe = f"{directory}/{uuid.uuid4().hex}{TEMPORARY}"
    create_file(probe, b"")
    is_replaced = create_file(probe, b"")
    system, inner = open_lake(probe)
    with lake_errors(probe, "removing it"):
        system.delete_file(inner)
    if is_replaced:
        raise LakeRefused(
            f"lake {directory}: the object store has no conditional put: it replaced an object that it was told to create only if there "
            "was none (If-None-Match). Two runs at once could commit the same messages twice.",
            next_step="Use an object store or a version of it that has conditional puts; or to: iceberg, whose catalog decides.",
        )


def _link_file(path: Path, content: bytes) -> bool:
    """A file gets its name when it is complete and flushed. A link, unlike a rename, replaces none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}{TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise LakeRefused(
                f"lake {path.parent}: its file system has no hard links: {error}. Without them two runs could both commit.",
                next_step="Export to a directory of another file system; or use to: iceberg, whose catalog decides.",
            ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _put_object(path: str, content: bytes) -> bool:
    directory, _, name = path.rpartition("/")
    with _object_errors(path):
        try:
            obstore.put(open_object_store(directory), name, content, mode="create")
        except exceptions.AlreadyExistsError:
            return False
    return True


@contextmanager
def _object_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise LakeRefused(
            f"lake {path}: while creating it: {_line(error)}.",
            next_step="Let the login of Spark's driver read and write the path of the export.",
        ) from error
    except (exceptions.NotSupportedError, NotImplementedError) as error:
        raise LakeRefused(
            f"lake {path}: the object store can't create an object only if there is none: {_line(error)}.",
            next_step="Use an object store that has conditional puts; or to: iceberg, whose catalog decides.",
        ) from error
    except (exceptions.BaseError, OSError) as error:
        raise LakeFailed(
            f"lake {path}: while creating it: {_line(error)}.",
            next_step="See that the driver of Spark reaches the path; the next run of the export goes on where the table ends.",
        ) from error


def _line(error: Exception) -> str:
    """Its first line: the others are the answer of the server, and the settings of the client."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
