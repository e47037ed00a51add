"""What the store keeps of trials: a next version derives a range again, is compared, and is promoted or dropped. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from relaybox.errors import RequestRefused
from relaybox.spark.derivations.ledger import Attempt, rolled_back_after_errors
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Route
    from relaybox.spark.derivations.source import Source

DIFFERENCES = ("equal", "changed", "only_old", "only_new")

_TRIAL = """
    t.trial_id, t.version, d.version as old_version, t.source_name, t.first_stream_position, t.last_stream_position,
    t.done_stream_position, t.begun_at, t.begun_by
"""
_BEGIN = f"""
    select {_TRIAL} from relaybox_internal.begin_derivation_trial(%s, %s, %s, %s, %s, %s, %s, %s, %s) t
    join relaybox_internal.derivation d on d.derivation_id = t.derivation_id
"""  # noqa: S608  our own names
_OPEN = f"""
    select {_TRIAL} from relaybox_internal.open_derivation_trial(%s) t
    join relaybox_internal.derivation d on d.derivation_id = t.derivation_id
"""  # noqa: S608  our own names
_NEWEST_TRIAL = """
    select t.trial_id from relaybox_internal.derivation_trial t
    join relaybox_internal.derivation d on d.derivation_id = t.derivation_id
    where d.route = %s and t.version = %s order by t.trial_id desc limit 1
"""
_BEGIN_ATTEMPT = """
    select
        a.trial_id as derivation_id, a.attempt, a.token, a.last_stream_position - a.first_stream_position + 1 as message_count,
        array[a.first_stream_position] as firsts, array[a.last_stream_position] as lasts
    from relaybox_internal.begin_derivation_trial_attempt(%s, %s, %s) a
"""
_FAIL = "select relaybox_internal.fail_derivation_trial_attempt(%s, %s, %s, %s, %s)"
_SET_ASIDE = "select count(*) from relaybox_internal.derivation_trial_attempt where trial_id = %s and state = 'set_aside'"
_COMPARE = "create temporary table relaybox_differences on commit drop as select * from relaybox_internal.compare_derivation_trial(%s, %s)"
_COUNTS = """
    select
        topic, count(*) filter (where difference = 'equal') as equal, count(*) filter (where difference = 'changed') as changed,
        count(*) filter (where difference = 'only_old') as only_old, count(*) filter (where difference = 'only_new') as only_new
    from relaybox_differences group by topic order by topic
"""
_KEYS = """
    select count(distinct (topic, key)) from relaybox_differences where difference <> 'equal' and key is not null
"""
_SAMPLES = """
    select
        s.difference, s.topic, s.key, s.stream_position, (o.headers - 'derived_from')::text as old_headers,
        coalesce(o.payload, o.payload_bytes::text) as old_payload, (m.headers - 'derived_from')::text as new_headers,
        coalesce(m.payload, m.payload_bytes::text) as new_payload
    from (
        select r.*, row_number() over (partition by r.difference order by r.stream_position, r.old_seq, r.new_seq) as number
        from relaybox_differences r where r.difference <> 'equal'
    ) s
    left join relaybox_internal.sent_rows o on o.seq = s.old_seq
    left join relaybox_internal.derivation_trial_message m on m.trial_id = %s and m.seq = s.new_seq
    where s.number <= %s
    order by s.difference, s.number
"""
_PROMOTE = "select relaybox_internal.promote_derivation_trial(%s, %s, %s, %s, %s, %s, %s)"
_DROP = "select relaybox_internal.drop_derivation_trial(%s, %s, %s)"


@dataclass(frozen=True)
class Trial:
    """An open trial.

    Attributes:
        trial_id: its number in the store.
        version: that is tried.
        old_version: that goes on meanwhile, and whose messages are compared.
        source_name: package.module:function, or sql.
        first_stream_position, last_stream_position: the range, both ends included.
        done_stream_position: through which it has derived.
    """

    trial_id: int
    version: int
    old_version: int
    source_name: str
    first_stream_position: int
    last_stream_position: int
    done_stream_position: int
    begun_at: datetime
    begun_by: str

    @property
    def is_done(self) -> bool:
        """Whether it has derived from its whole range."""
        return self.done_stream_position == self.last_stream_position


class TopicDifference(NamedTuple):
    """How many messages of a topic are equal, differ, or are in one output only."""

    topic: str
    equal: int
    changed: int
    only_old: int
    only_new: int


class Sample(NamedTuple):
    """A message that differs, with its body: headers as JSON, without `derived_from`; bytes as Postgres shows them.

    A side that is not there is None.
    """

    difference: str
    topic: str
    key: str | None
    stream_position: int | None
    old_headers: str | None
    old_payload: str | None
    new_headers: str | None
    new_payload: str | None


@dataclass(frozen=True)
class TrialComparison:
    """How the output of a trial differs from that of the version before.

    Attributes:
        trial: that is compared.
        compared_from: the first stream position that is compared; before it the outbox does not keep all of the old output.
        set_aside: messages of the range for which the new function fails.
        changed_keys: keys of which a message differs.
        topics: of both outputs.
        samples: of messages that differ, some of each difference.
    """

    trial: Trial
    compared_from: int
    set_aside: int
    changed_keys: int
    topics: list[TopicDifference]
    samples: list[Sample]

    def count(self, difference: str) -> int:
        """The messages of all topics: equal, changed, only_old or only_new."""
        return sum(getattr(topic, difference) for topic in self.topics)

    @property
    def is_equal(self) -> bool:
        """Whether no message differs."""
        return not any(self.count(difference) for difference in DIFFERENCES[1:])


class TrialLedger:
    """A session in the store where the trials of a route are."""

    def __init__(self, session: StoreSession, route: Route) -> None:
        self.session = session
        self.route = route
        self.trial_id = 0

    def begin(self, source: Source, *, start: str | None, through: str | None, begun_by: str, once: bool = False) -> Trial:
        """Begins a trial of the next version, or goes on with the open one. One transaction, durable.

        Args:
            source: of the next version.
            start: of the range: earliest, latest, a stream position or a time of delivery. None: the first message that the store keeps.
            through: its end: a stream position (included) or a time (excluded). None: the newest message. In any case the range ends where
                the present version has not derived yet.
            begun_by: who runs it.
            once: `begun_by` is one run, which begins one trial: if that has ended, it begins no other one.

        Raises:
            DerivationChanged: the route has derived nothing yet, is at this version or a higher one, or has an open trial of another
                version, source or range.
            RequestRefused: the present version has derived from no message of the range; or the trial of this run has ended.
            NoLongerKept, Detached, Transient, Terminal: the store refuses, or failed.
        """
        derivation = self.route.require_next()
        given = (
            self.route.name,
            derivation.version,
            derivation.stream,
            source.name,
            source.digest,
            start,
            through,
            begun_by,
            once,
        )
        trial = self.session.row(Trial, _BEGIN, *given)
        self.session.commit_durably("trial")
        self.trial_id = trial.trial_id
        return trial

    def require_open(self) -> Trial:
        """The open trial of the route.

        Raises:
            RequestRefused: there is none.
        """
        trial = self.session.row_if_any(Trial, _OPEN, self.route.name)
        self.session.rollback()
        if trial is None:
            raise RequestRefused(
                f"route {self.route.name} has no open trial in store {self.session.store}.",
                next_step=f"Begin one: relaybox trials run {self.route.name}",
            )
        return trial

    def newest_trial(self) -> int:
        """The number of the newest trial of the next version, open or not.

        Raises:
            RequestRefused: there never was one.
        """
        version = self.route.require_next().version
        trial_id: int | None = self.session.value(_NEWEST_TRIAL, self.route.name, version)
        self.session.rollback()
        if trial_id is None:
            raise RequestRefused(
                f"version {version} of the derivation of route {self.route.name} was never tried in store {self.session.store}.",
                next_step=f"Try it: relaybox trials run {self.route.name}",
            )
        return trial_id

    def begin_attempt(self, max_count: int, begun_by: str) -> Attempt | None:
        """Puts on record that this attempt derives from the next messages; None: all are done. Ends the attempt before it.

        Raises:
            RequestRefused: the trial has ended.
        """
        attempt = self.session.row_if_any(Attempt, _BEGIN_ATTEMPT, self.trial_id, max_count, begun_by)
        self.session.commit_durably("trial_attempt")
        return attempt

    def fail(self, attempt: Attempt, reason: str, *, dead_letter: bool) -> None:
        """Puts on record why it failed. The trial goes on after a single message, if asked for: no dead letter is made."""
        with rolled_back_after_errors(self.session):
            self.session.execute(_FAIL, attempt.derivation_id, attempt.attempt, attempt.token, reason, dead_letter)
            self.session.commit_durably("trial_failure")

    def compare(self, *, sample_count: int) -> TrialComparison:
        """Compares the open trial with what the version before has sent. Changes nothing. The rows are compared in the store.

        Args:
            sample_count: messages of each difference to return, with their bodies.

        Raises:
            RequestRefused: there is no open trial.
        """
        trial = self.require_open()
        compared_from = self.session.value("select relaybox_internal.trial_compared_from(%s)", trial.trial_id)
        self.session.execute(_COMPARE, trial.trial_id, compared_from)
        found = TrialComparison(
            trial,
            compared_from,
            self.session.value(_SET_ASIDE, trial.trial_id),
            self.session.value(_KEYS),
            self.session.rows(TopicDifference, _COUNTS),
            self.session.rows(Sample, _SAMPLES, trial.trial_id, sample_count),
        )
        self.session.rollback()
        return found

    def promote(self, trial_id: int, source: Source, *, republish: bool, promoted_by: str, reason: str) -> int:
        """Ends the version before and begins the one that was tried. One transaction, durable; nothing is done if it was promoted already.

        Args:
            trial_id: of the trial.
            source: of the next version, as it is now.
            republish: begin at the first message of the trial, and not after what the version before has done.
            promoted_by: who does it.
            reason: why.

        Returns:
            The stream position from which it derives.

        Raises:
            DerivationChanged: the source is another one than was tried, or the store has another version.
            RequestRefused: the trial has not derived from its whole range, was dropped, or has promoted another version.
            NoLongerKept: the first message of the trial is not kept any more (republish).
        """
        given = (trial_id, self.route.require_next().version, source.name, source.digest, republish, promoted_by, reason)
        first: int = self.session.value(_PROMOTE, *given)
        self.session.commit_durably("trial_end")
        return first

    def drop(self, *, dropped_by: str, reason: str) -> Trial:
        """Ends the open trial and deletes its messages. One transaction, durable.

        Raises:
            RequestRefused: there is no open trial.
        """
        trial = self.require_open()
        self.drop_trial(trial.trial_id, dropped_by=dropped_by, reason=reason)
        return trial

    def drop_trial(self, trial_id: int, *, dropped_by: str, reason: str) -> bool:
        """The same of this trial and no other one. Idempotent: returns whether this call has dropped it.

        Raises:
            RequestRefused: it was promoted.
            LaneLost: the store does not know it.
        """
        is_dropped: bool = self.session.value(_DROP, trial_id, dropped_by, reason)
        self.session.commit_durably("trial_end")
        return is_dropped


@contextmanager
def open_trials(route: Route) -> Iterator[TrialLedger]:
    """A ledger until the block ends."""
    store = route.path[0]
    connection = connect(store.service, application_name=f"relaybox trial {route.name}")
    with closing(
        StoreSession(connection, store.name, f"trying the next version of the derivation of route {route.name}")
    ) as session:
        yield TrialLedger(session, route)
