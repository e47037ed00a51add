"""Which document each command answers with."""

from __future__ import annotations

from collections.abc import Mapping

from relaybox.documents import (
    adoption,
    bindings,
    consumers,
    contracts,
    dead_letters,
    derivations,
    doctor,
    holdback,
    lake,
    metrics,
    operators,
    recovery,
    retention,
    retry_plan,
    senders,
    sinks,
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
    "adopt": (adoption.AdoptionDocument, adoption.AdoptionPlanDocument),
    "unadopt": (adoption.UnadoptedDocument,),
    "transfer": (transfer.TransferDocument,),
    "confirm": (transfer.ConfirmDocument,),
    "derive": (derivations.DerivationDocument, derivations.DerivationPreviewDocument),
    "trials run": (derivations.TrialDocument,),
    "trials compare": (derivations.TrialComparisonDocument,),
    "trials promote": (derivations.TrialEndDocument,),
    "trials drop": (derivations.TrialEndDocument,),
    "export": (lake.ExportDocument, lake.ExportPreviewDocument),
    "verify-lake": (lake.LakeVerificationDocument,),
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
    "schemas": (contracts.SchemasDocument,),
    "replay": (consumers.ReplayDocument, consumers.CancelledReplayDocument),
    **{
        f"{kind} {command}": (document,)
        for kind in ("webhook", "kafka")
        for command, document in (
            ("list", sinks.SinksDocument),
            ("run", sinks.SinkRunDocument),
            ("retry", sinks.SinkRetriedDocument),
        )
    },
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
