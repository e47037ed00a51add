"""Where the module of a derivation has to be: an error that is not of a message names the module, and sets no message aside."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relaybox.errors import ConfigurationError
from relaybox.spark.derivations.deriving import derive
from relaybox.spark.derivations.source import load_source
from relaybox.spark.tasks import ContextSession
from tests.spark.frames import serve
from tests.support.derivations import STORE, DerivedWorld
from tests.support.streams import deliver
from tests.support.world import World

MODULE = """
from pyspark.sql import functions as f


def shout(payload):
    return payload.upper()


def loud(flights):
    return flights.select("stream_position", f.udf(shout)("payload").alias("payload"))
"""


def configured(world: World, module: str, **derive: object) -> DerivedWorld:
    delays = DerivedWorld(world)
    delays.configure(**{"with": f"{module}:loud"}, **derive)
    return delays


def test_executors_without_the_module_are_named_and_no_message_becomes_a_dead_letter(
    frames: SparkSession, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has it: spark.submit.pyFiles brings it to the executors, and the derivation goes on."""
    serve(frames)
    file = tmp_path / "loud_delays.py"
    file.write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    delays = configured(world, "loud_delays", row_errors="dead_letter")
    world.register()
    deliver(world, 3)
    session = ContextSession(frames.sparkContext)
    with pytest.raises(ConfigurationError, match=r"loud_delays:loud: a Python worker .* can't import loud_delays") as missing:
        derive(delays.route, delays.derivation, session, recorded_by="test")
    assert "spark.submit.pyFiles" in str(missing.value.next_step)
    assert world.query(STORE, "select from relaybox_internal.dead_letter") == []
    frames.sparkContext.addPyFile(str(file))  # as spark.submit.pyFiles does for each executor
    assert derive(delays.route, delays.derivation, session, recorded_by="test").derived == 3
    assert delays.sent() == ["M1", "M2", "M3"]


def test_a_module_in_an_archive_has_the_digest_of_its_text(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As spark.submit.pyFiles brings it: so a worker that has the file promotes what a driver with the archive has tried."""
    file, archive = tmp_path / "file" / "archived_delays.py", tmp_path / "delays.zip"
    file.parent.mkdir()
    file.write_text(MODULE, encoding="utf-8")
    with zipfile.ZipFile(archive, "w") as written:
        written.write(file, file.name)
    digests = []
    for place in (file.parent, archive):
        with monkeypatch.context() as patched:
            patched.syspath_prepend(str(place))
            digests.append(load_source(configured(world, "archived_delays").derivation, route="delays").digest)
        sys.modules.pop("archived_delays")
    assert digests[0] == digests[1]


def test_a_driver_without_the_module_is_told_where_it_has_to_be(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"routes\.delays\.derive\.with: no_such_delays:loud: the import") as missing:
        load_source(configured(world, "no_such_delays").derivation, route="delays")
    assert "who promotes a trial" in str(missing.value.next_step)
