"""Every error that Relaybox raises.

A leaf is `Terminal` (a retry fails again; Airflow fails the task at once) or `Transient` (a retry
may succeed).
Errors of a store arrive here by SQLSTATE, never by message text; the schema's own codes are class RB.
"""

from __future__ import annotations


class RelayboxError(Exception):
    """The message says what is wrong, where, with which numbers; `next_step` says what to do."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} {self.next_step}" if self.next_step else message

    def __reduce__(self) -> tuple[object, ...]:
        """Makes errors picklable: Spark sends them from executors to the driver."""
        return (_rebuild, (type(self), super().__str__(), self.next_step))


def _rebuild(cls: type[RelayboxError], message: str, next_step: str) -> RelayboxError:
    return cls(message, next_step=next_step)


class Terminal(RelayboxError):
    """A retry fails again."""


class Transient(RelayboxError):
    """A retry may succeed."""


class ConfigurationError(Terminal):
    """relaybox.yaml, a command line argument or the environment is wrong."""


class StoreNotInitialised(Terminal):
    """The database has no Relaybox schema, or its schema is older than this code needs."""


class SchemaTooNew(Terminal):
    """The store was initialised by a newer Relaybox."""


class ObjectsInTheWay(Terminal):
    """Objects that are not Relaybox's depend on a function or view that `relaybox init` must drop."""


class StoreUnusable(Terminal):
    """The store refuses this work: a standby, fsync off, another encoding, missing rights, a wrong password."""


class OutboxChanged(Terminal):
    """What finds waiting messages was changed by hand: the default of relaybox.outbox.xid, its sequence, a view or a function."""


class UnknownHop(Terminal):
    """The hop is not registered in the store."""


class UnknownTopic(ConfigurationError):
    """relaybox.yaml gives a hop a topic that its store does not move yet: run `relaybox init`."""


class UnknownMessage(Terminal):
    """No message has this id in the route's outbox."""


class AlreadySubscribed(Terminal):
    """The store has a subscription of this name."""


class NotSubscribed(Terminal):
    """The store has no subscription of this name."""


class UnknownStream(Terminal):
    """The store has no stream of this name, and no stream with a topic of this name."""


class NotFetched(Terminal):
    """Ack or nack with an unknown token, or of a message that the fetch did not return or that is done."""


class NoLongerKept(Terminal):
    """Retention has dropped the message at the stream position."""


class Detached(Terminal):
    """The message at the stream position is detached into files; `relaybox attach` attaches it."""


class RequestRefused(Terminal):
    """A subscription cannot do what was requested: the message says why."""


class TransactionEnded(Terminal):
    """The handler of a consumer ended the transaction that acknowledges its message."""


class HandlerRefused(Terminal):
    """The handler of a consumer is async or a generator: a call of it does no work. Nothing is acknowledged."""


class QuotaExceeded(Terminal):
    """The role has reached its quota of subscriptions or lanes in the store."""


class RoleNotBound(Terminal):
    """The store binds subscriptions to roles, and the role is not bound to this one."""


class TopicNotGranted(Terminal):
    """The store grants topics to roles, and the role may not read a topic of what it asked for."""


class ApprovalRequired(Terminal):
    """The store gives messages again only after an approval in Airflow."""


class ApprovalOutdated(Terminal):
    """What was approved is not there any more: the subscription ended and its name began anew, or the sender has a new epoch."""


class AdoptionRefused(Terminal):
    """A table of an application can't be adopted, or its adoption can't end, as asked. Nothing is changed."""


class RowUnmapped(Terminal):
    """A row of an adopted table can't be a message. The statement that inserts it fails with this error."""


class DeadLetterNotOpen(Terminal):
    """The dead letter does not exist, is resolved, or waits for an earlier one."""


class HopChanged(Terminal):
    """relaybox.yaml changes the path of a registered hop or the order of a used stream, or the hop is retired, or is in use."""


class SenderRefused(Terminal):
    """The store refuses the declaration of a sender, an epoch or an index."""


class PutChanged(Terminal):
    """Other messages were sent under the same key of the sender before. Nothing is sent."""


class DerivationChanged(Terminal):
    """relaybox.yaml has another version, stream or source of a derivation than the store. Nothing is derived."""


class DerivationFailed(Terminal):
    """The function of a derivation failed, or returned what makes no message. Nothing of the attempt is sent."""


class PayloadMissing(Terminal):
    """The file with the payload of a large message is not in its directory. The message is refused."""


class PayloadDiffers(Terminal):
    """The file with the payload of a large message has other content than the message says. The message is refused."""


class PayloadReferenceInvalid(Terminal):
    """The header of a large message is no reference, or refers to another directory. The message is refused."""


class CollectionRefused(Terminal):
    """It is not certain which messages refer to the large payloads of a place. Nothing is removed."""


class LakeChanged(Terminal):
    """The table of an export is not as the export left it: others changed it, or it went back in time. Nothing is written."""


class LakeRefused(Terminal):
    """A message does not fit into the table of an export, or the lake refuses the login. Nothing is committed."""


class HistoryLost(Terminal):
    """G11: one of the two stores went back in time. Nothing is skipped or overwritten."""


class ConservationBroken(Terminal):
    """G12: committed messages are in no batch and no backlog of a hop, or in two."""


class NoSuchGap(Terminal):
    """The messages to skip are not missing."""


class ContentDiffers(Terminal):
    """A batch has other content under the same number, or a slice has other rows than planned."""


class PlanRefused(Transient):
    """Another driver planned a batch first."""


class SliceMissing(Transient):
    """Publish found fewer receipts than slices."""


class SliceSuperseded(Transient):
    """The batch of the slice is published already, or a newer attempt copies the slice."""


class LaneLost(Transient):
    """The messages were fetched again, or another worker leases the lane; nothing was acknowledged."""


class NotDurable(Transient):
    """COMMIT returned a warning: the transaction may not survive a failover."""


class InitUnfinished(Transient):
    """`relaybox init` has begun to change the rules of a stream in its stores, and has not finished."""


class SparkFailed(Transient):
    """Spark did not start for a command, or its job failed."""


class FilesFailed(Transient):
    """Spark could not write, read or remove the files of a detached segment."""


class PayloadsUnavailable(Transient):
    """The directory of large payloads can't be reached, read or written, or its disk is full. No message is refused for it."""


class LakeFailed(Transient):
    """The lake can't be reached, read or written, or its disk is full. Nothing is acknowledged."""


class EndpointUnavailable(Transient):
    """The endpoint of a webhook, or Kafka, takes no message now. Its messages wait, and none is refused."""


class ExportSuperseded(Transient):
    """Another run of the export has committed first. This one commits nothing."""


class StoreUnreachable(Transient):
    """The store accepts no connection, or the connection broke."""


class CredentialsUnavailable(Transient):
    """Airflow has no connection of a store now, or could not give the token that it asks for."""


class StoreBusy(Transient):
    """Lock timeout, deadlock, serialization failure, cancelled statement, or full disk."""


class StoreFailed(Terminal):
    """An error of Postgres; a retry fails again."""


class StackFailed(Transient):
    """A server of the embedded stack did not start, did not answer in time, or ended."""
