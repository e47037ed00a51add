"""Every error that Relaybox raises.

A leaf is `Terminal` (a retry gives the same answer; Airflow fails the task at once) or `Transient` (a retry may help).
Errors of a store arrive here by SQLSTATE, never by message text; the schema's own codes are class RB.
"""

from __future__ import annotations


class RelayboxError(Exception):
    """What, where, expected, got; `next_step` says what to do about it."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} {self.next_step}" if self.next_step else message

    def __reduce__(self) -> tuple[object, ...]:
        """Survives pickling: Spark carries errors from executors to the driver."""
        return (_rebuild, (type(self), super().__str__(), self.next_step))


def _rebuild(cls: type[RelayboxError], message: str, next_step: str) -> RelayboxError:
    return cls(message, next_step=next_step)


class Terminal(RelayboxError):
    """A retry gives the same answer."""


class Transient(RelayboxError):
    """A retry may help."""


class ConfigurationError(Terminal):
    """relaybox.yaml, a command line argument or the environment is wrong."""


class StoreNotInitialised(Terminal):
    """The database has no relaybox schema, or an older one than this code needs."""


class SchemaTooNew(Terminal):
    """The store was initialised by a newer Relaybox."""


class ObjectsInTheWay(Terminal):
    """Objects that are not Relaybox's depend on a function or view that `relaybox init` must drop."""


class StoreUnusable(Terminal):
    """The store refuses this work: a standby, fsync off, another encoding, missing rights, a wrong password."""


class UnknownHop(Terminal):
    """The hop is not registered in the store."""


class UnknownTopic(ConfigurationError):
    """relaybox.yaml gives a hop a topic that its store does not move yet: `relaybox init` was not run since."""


class UnknownMessage(Terminal):
    """No message has this id in the route's outbox."""


class AlreadySubscribed(Terminal):
    """The store has a subscription of this name."""


class NotSubscribed(Terminal):
    """The store has no subscription of this name."""


class UnknownStream(Terminal):
    """The store has no stream of this name, nor one that carries a topic of this name."""


class NotFetched(Terminal):
    """An acknowledgement or refusal without the token of a fetch, or of a message that this fetch did not give or that is done."""


class NoLongerKept(Terminal):
    """Retention has dropped the stream position."""


class Detached(Terminal):
    """Retention has put the stream position into files; `relaybox attach` brings it back."""


class RequestRefused(Terminal):
    """What was asked of a subscription makes no sense: the message says why."""


class TransactionEnded(Terminal):
    """A consumer's handler ended the transaction that its message is acknowledged in."""


class QuotaExceeded(Terminal):
    """The role has as many subscriptions or lanes in the store as its quota allows."""


class DeadLetterNotOpen(Terminal):
    """There is no such dead letter, it is settled, or another one comes first."""


class HopChanged(Terminal):
    """relaybox.yaml gives a registered hop another path, or a stream that delivered already another order; or the hop was retired."""


class SenderRefused(Terminal):
    """A declaration of a sender, an epoch or an index that its store refuses."""


class HistoryLost(Terminal):
    """G11: one of the two stores went back in time. Nothing is skipped or overwritten."""


class ConservationBroken(Terminal):
    """G12: committed messages are in no batch and no backlog of a hop, or in two."""


class NoSuchGap(Terminal):
    """What shall be skipped is not missing."""


class ContentDiffers(Terminal):
    """The same batch number with other content, or a slice whose rows are not the planned ones."""


class PlanRefused(Transient):
    """The plan came too late: another driver planned meanwhile."""


class SliceMissing(Transient):
    """Publish found fewer receipts than slices."""


class SliceSuperseded(Transient):
    """The slice came after its batch was published, or a newer attempt copies it."""


class LaneLost(Transient):
    """The messages were fetched again since, or the lane is leased to another worker; nothing was acknowledged."""


class NotDurable(Transient):
    """COMMIT came back with a warning: the transaction may not survive a failover."""


class InitUnfinished(Transient):
    """`relaybox init` began to change the rules of a stream in all its stores, and has not ended."""


class SparkFailed(Transient):
    """Spark did not start for a command, or gave up what was asked of it."""


class FilesFailed(Transient):
    """Spark could not write, read or remove the files of a detached segment."""


class StoreUnreachable(Transient):
    """No connection, or the connection broke."""


class StoreBusy(Transient):
    """A lock, a deadlock, a serialization failure, a cancelled statement, a full disk."""


class StoreFailed(Terminal):
    """An error of the store that no retry mends."""


class StackFailed(Transient):
    """A server of the embedded stack did not start, did not answer in time, or ended."""
