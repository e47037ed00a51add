"""The mock cluster of librdkafka: brokers in this process that speak Kafka's protocol over TCP. Reached through its C functions."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relaybox import errors

_PRODUCER = 0
_FUNCTIONS = (
    ("rd_kafka_new", ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)),
    ("rd_kafka_mock_cluster_new", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
    ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p, (ctypes.c_void_p,)),
    ("rd_kafka_mock_cluster_destroy", None, (ctypes.c_void_p,)),
    ("rd_kafka_mock_topic_create", ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
    ("rd_kafka_destroy", None, (ctypes.c_void_p,)),
)


def load_librdkafka() -> Any:
    """The library that the package confluent_kafka brings, with the functions of its mock cluster.

    Raises:
        ConfigurationError: the package is not installed, or its library has no mock cluster.
    """
    found = importlib.util.find_spec("confluent_kafka")
    if found is None or found.origin is None:
        raise errors.ConfigurationError("confluent_kafka is not installed.", next_step="Run: pip install 'relaybox[kafka]'")
    package = Path(found.origin).parent
    paths = [*package.parent.glob("confluent_kafka.libs/librdkafka*.so*"), *package.glob("librdkafka*.so*")]
    if not paths:
        raise errors.ConfigurationError(
            f"confluent_kafka in {package} brings no librdkafka of its own.", next_step="Install its wheel for Linux."
        )
    library = ctypes.CDLL(str(paths[0]))
    for function, result, arguments in _FUNCTIONS:
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


@contextmanager
def mock_brokers() -> Iterator[tuple[str, Any, int]]:
    """Three brokers on free ports, while the block runs: their addresses, the library, and the number of the cluster in it."""
    library = load_librdkafka()
    owner = library.rd_kafka_new(_PRODUCER, None, None, 0)
    cluster = library.rd_kafka_mock_cluster_new(owner, 3)
    try:
        yield library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), library, cluster
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(owner)
