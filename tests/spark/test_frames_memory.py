"""Memory of a task does not grow with the range that it reads, from the store or from files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.streams import STORE, STREAM, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

MESSAGES = 6_000
MESSAGE_BYTES = 51_200
GROWTH_MIB = 100
"""Of 270 MiB that the larger range has more. A statement reads 32 MiB, and a task has two of them for a moment."""

_PEAK = "import resource; print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
FROM_STORE = f"""
from relaybox.spark.frames.arrow_copy import read_messages
from relaybox.spark.frames.columns import SCHEMA
rows = sum(batch.num_rows for batch in read_messages({STORE!r}, {STREAM!r}, 1, COUNT, columns=SCHEMA, only={{}}))
{_PEAK}
"""
FROM_FILES = f"""
import numpy as np
from relaybox.retention.segment_archive import DetachedFile
from relaybox.spark.frames.detached_rows import DetachedRows, DetachedSegmentFiles
segment = DetachedSegmentFiles({STORE!r}, "flights/1", "DIRECTORY", {MESSAGES}, None)
reading, rows = DetachedRows(segment, ["payload"]), 0
for first in range(1, COUNT, 600):
    rows += reading.take(np.arange(first, first + 600)).num_rows
{_PEAK}
"""


def peak_mib(program: str, count: int) -> int:
    """Of a process of its own that reads so many messages."""
    done = subprocess.run(
        [sys.executable, "-c", program.replace("COUNT", str(count))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, peak = done.stdout.split()
    assert int(rows) == count
    return int(peak)


def test_memory_does_not_grow_with_a_range_of_the_store(world: World) -> None:
    deliver(world, MESSAGES)
    world.query(STORE, f"update relaybox_internal.log set payload = repeat(md5(log_position::text), {MESSAGE_BYTES // 32})")
    few, many = (peak_mib(FROM_STORE, count) for count in (MESSAGES // 10, MESSAGES))
    assert many - few < GROWTH_MIB, (few, many)


def test_memory_does_not_grow_with_a_range_of_files(tmp_path: Path) -> None:
    """Also within a row group: Spark makes one of all rows of a file."""
    rows = pa.table(
        {
            "log_position": np.arange(1, MESSAGES + 1),
            "payload": [np.random.default_rng(n).bytes(MESSAGE_BYTES // 2).hex() for n in range(MESSAGES)],
        }
    )
    parquet.write_table(
        rows,
        tmp_path / "part.parquet",
        row_group_size=MESSAGES,
        use_dictionary=False,
        write_page_checksum=True,
        compression="snappy",
    )
    assert parquet.ParquetFile(tmp_path / "part.parquet").num_row_groups == 1
    few, many = (peak_mib(FROM_FILES.replace("DIRECTORY", str(tmp_path)), count) for count in (MESSAGES // 10, MESSAGES))
    assert many - few < GROWTH_MIB, (few, many)
