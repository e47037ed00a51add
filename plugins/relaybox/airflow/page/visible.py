"""Of what the stores say, what one user may see."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from relaybox.monitoring.finding import Finding, Severity
from relaybox.monitoring.forecasts import Forecast, forecast_drain

if TYPE_CHECKING:
    from relaybox.airflow.page.permissions import Rights
    from relaybox.monitoring.hop_history import HopFlow
    from relaybox.monitoring.overview import Overview
    from relaybox.monitoring.status import HopStatus

OLD_SECONDS = 6.0
"""A page says so when its numbers are older: the next look is late."""


@dataclass(frozen=True)
class VisibleOverview:
    """What one user sees: the overview, less what the user may not read."""

    overview: Overview
    hops: tuple[HopStatus, ...]
    findings: tuple[Finding, ...]
    age_seconds: float = 0.0

    @property
    def is_old(self) -> bool:
        return self.age_seconds > OLD_SECONDS

    def health(self, hop: HopStatus) -> str:
        """`silent`: a store does not answer; `stuck` or `held` by a finding; `busy`: messages are on their way; else `ok`."""
        if hop.lag_messages is None:
            return "silent"
        own = {finding.severity for finding in self.findings if finding.hop == hop.hop.name}
        own |= {finding.severity for finding in self.findings if finding.hop is None and hop.hop.name in finding.affected}
        for severity in (Severity.STUCK, Severity.HELD):
            if severity in own:
                return str(severity)
        return "busy" if hop.lag_messages else "ok"

    def hop(self, name: str) -> HopStatus | None:
        """None: the look at the stores is older than the hop."""
        return next((hop for hop in self.hops if hop.hop.name == name), None)


def forecast(hop: HopStatus, flow: HopFlow) -> Forecast | None:
    """When the hop's backlog will be gone; None while a store is silent."""
    if hop.lag_messages is None:
        return None
    return forecast_drain(backlog=hop.lag_messages, oldest_seconds=hop.lag_seconds, moving_per_second=flow.moving_rows_per_second)


_OF_A_PAUSE = frozenset({"not_running", "late", "batch_left"})


def explained_by_pause(finding: Finding, paused_hops: set[str]) -> bool:
    """Whether it says only that no run moves a hop, and the hop's DAGs are paused: the pause is shown instead."""
    return finding.kind in _OF_A_PAUSE and finding.hop in paused_hops


def see(overview: Overview, rights: Rights, *, measured_at: Mapping[str, float]) -> VisibleOverview:
    """Asks for the user's rights on each hop; may take as long as Airflow's auth manager takes.

    Args:
        overview: what the stores said.
        rights: the user's.
        measured_at: when they were asked for each hop. The oldest number that is shown tells the age; a silent hop shows none.
    """
    hops = tuple(hop for hop in overview.status.hops if rights.may_read(hop.hop))
    shown = [measured_at[hop.hop.name] for hop in hops if hop.lag_messages is not None and hop.hop.name in measured_at]
    age_seconds = time.monotonic() - min(shown) if shown else 0.0
    return VisibleOverview(overview, hops, tuple(_findings(overview, hops, rights)), age_seconds)


def _findings(overview: Overview, hops: tuple[HopStatus, ...], rights: Rights) -> Iterator[Finding]:
    in_routes = {hop.hop.name for hop in overview.status.hops}
    readable = {hop.hop.name for hop in hops}
    readable |= {one.hop for one in overview.findings if one.hop and one.hop not in in_routes and rights.may_read_named(one.hop)}
    stores = {store.name for hop in hops for store in (hop.hop.source, hop.hop.destination)}
    runnable = {hop.hop.name for hop in hops if rights.may_run(hop.hop)}
    for finding in overview.findings:
        if finding.stream is not None:
            is_visible = _names_of_readers(overview, finding.store, finding.stream) <= readable
        else:
            is_visible = finding.hop in readable if finding.hop else finding.store in stores
        if is_visible:
            shown = finding if _concerned(finding) <= runnable else _without_statements(finding)
            yield replace(shown, affected=tuple(hop for hop in finding.affected if hop in readable))


def _names_of_readers(overview: Overview, store: str, stream: str) -> set[str]:
    """The hops that fill a stream; of one that no route fills any more, all that arrive in its store."""
    arriving = {hop.hop.name: hop.hop for hop in overview.status.hops if hop.hop.destination.name == store}
    return {name for name, hop in arriving.items() if hop.stream == stream} or set(arriving)


def _concerned(finding: Finding) -> set[str]:
    """The hops whose messages a statement may hold: all that the finding affects."""
    return {*finding.affected, *((finding.hop,) if finding.hop else ())}


def _without_statements(finding: Finding) -> Finding:
    """Statements hold what applications wrote into them: they are for those who may run every hop that they may be about."""
    return replace(finding, blockers=tuple(replace(blocker, query="") for blocker in finding.blockers))
