"""The schedule of a DAG that only backfills start: days, each from midnight to midnight UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.timetables.interval import CronDataIntervalTimetable

if TYPE_CHECKING:
    from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction

REPLAY_CRON = "0 0 * * *"


class ReplayTimetable(CronDataIntervalTimetable):
    """Its intervals touch and never overlap. The plugin registers it: Airflow's components find it by its name."""

    description = "Backfill only"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Nothing for the scheduler, which asks without catching up; every interval for a backfill, which catches up."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(last_automated_data_interval=last_automated_data_interval, restriction=restriction)
