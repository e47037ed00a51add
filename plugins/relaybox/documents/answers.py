"""Which document each command answers with."""

from __future__ import annotations

from collections.abc import Mapping

from relaybox.documents import (
    bindings,
    consumers,
    dead_letters,
    doctor,
    holdback,
    metrics,
    operators,
    recovery,
    retention,
    retry_plan,
    senders,
    status,
    stores,
    topics,
    traces,
    transfer,
    verification,
)
from relaybox.documents.document import Document

ANSWERS: Mapping[str, tuple[type[Document], ...]] = {
    "init": (stores.InitDocument,),
    "version": (stores.VersionDocument,),
    "doctor": (doctor.DoctorDocument,),
    "transfer": (transfer.TransferDocument,),
    "confirm": (transfer.ConfirmDocument,),
    "status": (status.StatusDocument,),
    "where": (traces.TracesDocument,),
    "metrics": (metrics.MetricsDocument,),
    "verify": (verification.VerificationDocument,),
    "subscriptions list": (consumers.SubscriptionsDocument,),
    "subscriptions bindings": (bindings.SubscriptionBindingsDocument,),
    "subscriptions bind": (bindings.SubscriptionBoundDocument,),
    "subscriptions unbind": (bindings.SubscriptionUnboundDocument,),
    "operators list": (operators.StreamOperatorsDocument,),
    "operators bind": (operators.OperatorBoundDocument,),
    "operators unbind": (operators.OperatorUnboundDocument,),
    "topics list": (topics.TopicGrantsDocument,),
    "topics grant": (topics.TopicsGrantedDocument,),
    "topics revoke": (topics.TopicsRevokedDocument,),
    "replay": (consumers.ReplayDocument, consumers.CancelledReplayDocument),
    "dead-letters list": (dead_letters.DeadLettersDocument,),
    "dead-letters show": (dead_letters.DeadLetterDocument,),
    "dead-letters redrive": (dead_letters.RedrivenDocument,),
    "dead-letters drop": (dead_letters.DroppedDocument,),
    "senders list": (senders.SendersDocument,),
    "senders declare": (senders.DeclaredDocument,),
    "senders new-epoch": (senders.NewEpochDocument,),
    "senders bind": (senders.BoundDocument,),
    "senders unbind": (senders.UnboundDocument,),
    "holdback": (holdback.HoldbackDocument,),
    "skip": (holdback.SkipDocument,),
    "retention": (retention.RetentionDocument, retention.KeptDocument),
    "attach": (retention.AttachDocument,),
    "retire": (retention.RetireDocument, retention.RetireTopicDocument),
    "reanchor": (recovery.ReanchorDocument,),
    "attest": (recovery.AttestDocument,),
    "rebuild": (recovery.RebuildDocument,),
    "plan-retries": (retry_plan.RetryPlanDocument,),
}
"""By command that takes --json; several where the answer depends on its options."""
