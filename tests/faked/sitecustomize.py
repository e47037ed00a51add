"""For Python below Debian's libfaketime 0.9.10, whose clock_nanosleep() refuses what time.sleep() asks of it (EINVAL)."""

import select
import time


def sleep(seconds: float) -> None:
    """As time.sleep(), which is another system call."""
    select.select([], [], [], seconds)


time.sleep = sleep
