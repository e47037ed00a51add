"""What copies the slices of a benchmark's hop: Spark, in a session that is started before the clock, or threads; one task per core."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from relaybox.hops.runners import ThreadRunner
from relaybox.local.bench.environment import core_count
from relaybox.spark.driver_options import driver_java_options

if TYPE_CHECKING:
    from pyspark import SparkContext

    from relaybox.hops.runners import SliceRunner


@contextmanager
def _threads() -> Iterator[SliceRunner]:
    yield ThreadRunner(core_count())


@contextmanager
def _spark() -> Iterator[SliceRunner]:
    from relaybox.spark.runner import SparkRunner
    from relaybox.spark.tasks import ContextSession

    with bench_spark({}) as context:
        yield SparkRunner(ContextSession(context))


@contextmanager
def bench_spark(settings: Mapping[str, str]) -> Iterator[SparkContext]:
    """A session with one task per core, its Python workers started."""
    # imported here: a measurement with threads needs no Spark and no Java
    from pyspark import SparkContext

    from relaybox.local.java import find_java_home
    from relaybox.spark.application import spark_conf

    os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = spark_conf("relaybox bench").setMaster(f"local[{core_count()}]").set("spark.ui.enabled", "false")
    conf.set("spark.driver.extraJavaOptions", driver_java_options()).setAll(list(settings.items()))
    context = SparkContext(conf=conf)
    try:
        context.parallelize(range(core_count()), core_count()).count()
        yield context
    finally:
        context.stop()


RUNNERS: Mapping[str, Callable[[], AbstractContextManager[SliceRunner]]] = {"spark": _spark, "threads": _threads}
