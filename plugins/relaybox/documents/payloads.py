"""Answers of `relaybox payloads`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document, Time

if TYPE_CHECKING:
    from relaybox.payloads.checking import PlaceChecked, PlaceStatus
    from relaybox.payloads.collecting import PlaceCollected


class FileTotalDocument(Document):
    """Files together."""

    count: int
    bytes: int


class PlaceStoreDocument(Document):
    """A store that the place remembers."""

    store: str
    store_id: str
    recorded_at: str
    recorded_by: str
    forgotten_reason: str | None
    """Null: a collection has to ask it."""


class PayloadFileDocument(Document):
    """A file of a place."""

    ref: str
    bytes: int
    since: Time
    """When it was written or changed; in the trash: when it was removed."""
    state: str
    """referenced; young or unreferenced: no message refers to it, before or after grace_seconds; trash; unknown: a store did not answer."""
    message_count: int
    """Messages of all stores that refer to it."""


class PlaceStatusDocument(Document):
    """What is in a place of payloads."""

    place: str
    location: str
    files: dict[str, FileTotalDocument]
    """By state."""
    oldest: Time | None
    reference_count: int
    """Messages that refer to a file of the place."""
    partial_count: int
    """Files that are being written, or that killed writers left."""
    unknown_count: int
    """Files that are not of Relaybox."""
    stores: list[PlaceStoreDocument]
    details: list[PayloadFileDocument]
    """With --files: the oldest first."""
    errors: dict[str, str]
    """By store."""

    @classmethod
    def of(cls, found: PlaceStatus) -> PlaceStatusDocument:
        return cls(
            place=found.place,
            location=found.location,
            files={state: FileTotalDocument.model_validate(total) for state, total in found.files.items()},
            oldest=found.oldest,
            reference_count=found.reference_count,
            partial_count=found.partial_count,
            unknown_count=found.unknown_count,
            stores=[
                PlaceStoreDocument(
                    store=one.identity.store,
                    store_id=one.identity.store_id,
                    recorded_at=one.recorded_at.isoformat(timespec="milliseconds"),
                    recorded_by=one.recorded_by,
                    forgotten_reason=one.forgotten_reason,
                )
                for one in found.stores
            ],
            details=[PayloadFileDocument.model_validate(one) for one in found.details],
            errors={store: str(error) for store, error in found.errors.items()},
        )


class PayloadsDocument(Document):
    """The answer of `relaybox payloads list`."""

    places: list[PlaceStatusDocument]
    errors: dict[str, str]
    """By place."""


class MissingPayloadDocument(Document):
    """A message whose file is not there, or is not what the message says."""

    store: str
    held_in: str
    """outbox, log of a hop, detached from the log of a hop, or the table of an application."""
    position: int
    """Its seq, its log position, or the number of its row there."""
    ref: str
    problem: str


class PlaceCheckedDocument(Document):
    """Whether each message has its file."""

    place: str
    location: str
    referenced: FileTotalDocument
    reference_count: int
    read: bool
    """Whether the content of each file was compared too."""
    missing: list[MissingPayloadDocument]
    """One message for each file."""
    errors: dict[str, str]
    """By store: nothing is known of its messages."""

    @classmethod
    def of(cls, found: PlaceChecked) -> PlaceCheckedDocument:
        return cls(
            place=found.place,
            location=found.location,
            referenced=FileTotalDocument.model_validate(found.referenced),
            reference_count=found.reference_count,
            read=found.read,
            missing=[MissingPayloadDocument.model_validate(one) for one in found.missing],
            errors={store: str(error) for store, error in found.errors.items()},
        )


class PayloadsCheckedDocument(Document):
    """The answer of `relaybox payloads check`."""

    places: list[PlaceCheckedDocument]
    errors: dict[str, str]
    """By place."""


class PlaceCollectedDocument(Document):
    """What a collection did with a place, or with --dry-run would do."""

    place: str
    location: str
    dry_run: bool
    referenced: FileTotalDocument
    """Messages refer to them."""
    young: FileTotalDocument
    """No message refers to them, and they are not old enough."""
    trashed: FileTotalDocument
    """Moved into the trash."""
    put_back: FileTotalDocument
    """Brought back from the trash, since messages refer to them."""
    removed: FileTotalDocument
    """Removed from the trash for good."""
    in_trash: FileTotalDocument
    """What is in the trash afterwards."""
    partial_count: int
    """What killed writers had left, removed."""
    unknown_count: int
    """Files that are not of Relaybox; nothing touches them."""
    cutoff: Time
    """Only older files were looked at."""
    held_by: str | None
    """The open transaction that holds back the cutoff; null: none does."""
    missing: list[MissingPayloadDocument]
    """Messages whose file is missing: the first ones."""
    missing_count: int
    recorded: list[str]
    """Stores that the place did not know before."""
    other_places: list[str]
    """Ids of other places by which messages refer to files that are here: these stay, and consumers refuse the messages."""


class CollectionDocument(Document):
    """The answer of `relaybox payloads collect`, and a part of that of `relaybox retention`."""

    places: list[PlaceCollectedDocument]
    errors: dict[str, str]
    """By place."""

    @classmethod
    def of(cls, done: list[PlaceCollected], errors: dict[str, str]) -> CollectionDocument:
        return cls(places=[PlaceCollectedDocument.model_validate(one) for one in done], errors=errors)


class PlaceRestoredDocument(Document):
    """The answer of `relaybox payloads restore`."""

    place: str
    location: str
    restored: FileTotalDocument
    in_trash: FileTotalDocument
    """No message refers to them."""


class PlacePreparedDocument(Document):
    """The answer of `relaybox payloads prepare`."""

    place: str
    location: str
    place_id: str
    """Which references have."""
    recorded: list[str]
    """Stores that were new to the place."""
    stores: list[str]
    """All that it remembers."""


class StoreForgottenDocument(Document):
    """The answer of `relaybox payloads forget`."""

    place: str
    store: str
    store_id: str
    reason: str
