"""Answers of `relaybox init` and `relaybox version`."""

from __future__ import annotations

from pydantic import Field

from relaybox.documents.document import Document


class InitialisedStore(Document):
    """What init did to one store. Empty lists: it was up to date."""

    store: str
    migrations: list[str]
    functions_renewed: bool
    roles_created: list[str]
    segments_made: list[str]
    hops: dict[str, str]
    """By hop and direction, as in `flights/1 out`: registered, changed, removed (relaybox.yaml no longer contains it) or unchanged."""
    sender_binding: str
    """To database roles: switched on, switched off or unchanged."""
    subscription_binding: str
    """To database roles: switched on, switched off or unchanged."""
    topic_binding: str
    """To database roles: switched on, switched off or unchanged."""
    approvals: str
    """Of messages that are given again: switched on, switched off or unchanged."""
    switches_kept_on: list[str]
    """Keys such as `bind_topics` that are on in the store, and that relaybox.yaml does not have."""
    durability: str
    """`server`, or `provider`: commits are durable by other means than fsync."""
    durability_changed: bool
    orphaned_hops: list[str]
    """Hops that leave the store and that relaybox.yaml no longer contains, unless they are retired."""
    hops_in_use: list[str]
    """Of these, what speaks for a newer relaybox.yaml that has them: an earlier init had the hop, or a driver has moved it since an init
    removed it. And what to do then."""
    renamed_sinks: list[str]
    """New sinks that read the stream of one that relaybox.yaml no longer contains: where each will begin, and how to begin where the
    other one stands. And sinks that relaybox.yaml gives another store, stream or topic than
    their subscription has."""
    orphaned_subscriptions: list[str]
    """Subscriptions that get no new message, or lost topics, since relaybox.yaml brings these in another stream or in none: how far behind
    each is, and how it goes on."""
    public_rights: list[str]
    """What every login may do in the database without a grant."""
    public_rights_revoked: list[str]
    """Those of them that this init revoked from PUBLIC."""
    repaired: list[str]
    """What was not as an earlier init had made it: a function or view that was dropped or changed, a right that was missing, a default,
    constraint or index of a table."""
    differing: list[str]
    """What differs in the tables and init leaves as it is, each with the statement that repairs it."""
    payload_checks: list[str]
    """What changed of the checks that relaybox.yaml asks for with `schema_checks`."""
    changed: bool


class InitDocument(Document):
    """The answer of `relaybox init`."""

    dry_run: bool
    """Nothing was changed; `stores` has what an init would change."""
    stores: list[InitialisedStore]
    errors: dict[str, str]
    """By store."""


class VersionDocument(Document):
    """The answer of `relaybox version`."""

    version: str
    schema_version: int = Field(alias="schema")
    """The schema version that stores must have."""
