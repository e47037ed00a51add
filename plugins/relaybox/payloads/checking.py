"""Whether each message that refers to a large payload has its file; and what is in a place. Reads only, and keeps no store still."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from relaybox.errors import RelayboxError
from relaybox.payloads.gathering import MissingPayload, Progress, tell_nobody
from relaybox.payloads.listing import FileTotal, PlaceListing, list_place
from relaybox.payloads.place_stores import PlaceStore, read_place_stores
from relaybox.payloads.store import PayloadStore, digest_of
from relaybox.payloads.store_references import StoreReference, read_references
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.payloads.files import PlaceFiles
    from relaybox.routes import PayloadPlace, Store


@dataclass(frozen=True)
class FileState:
    """A file of a place.

    Attributes:
        ref: its name.
        bytes: its length.
        since: when it was written or changed.
        state: referenced; young or unreferenced: no message refers to it, and the grace has not or has passed; trash; unknown: a store
            did not answer.
        message_count: messages that refer to it, in all stores.
    """

    ref: str
    bytes: int
    since: datetime
    state: str
    message_count: int


@dataclass(frozen=True)
class PlaceStatus:
    """What is in a place.

    Attributes:
        place, location: as of PayloadPlace.
        files: by state.
        oldest: when the oldest file was written; None: there is none.
        reference_count: messages that refer to a file of the place.
        partial_count: files that are being written, or that killed writers left.
        unknown_count: files that are not of Relaybox.
        stores: that the place remembers; a collection has to ask each.
        details: each file, the oldest first; empty unless asked for.
        errors: why stores did not answer.
    """

    place: str
    location: str
    files: Mapping[str, FileTotal]
    oldest: datetime | None
    reference_count: int
    partial_count: int
    unknown_count: int
    stores: tuple[PlaceStore, ...]
    details: tuple[FileState, ...]
    errors: Mapping[str, RelayboxError]


@dataclass(frozen=True)
class PlaceChecked:
    """Whether each message has its file.

    Attributes:
        place, location: as of PayloadPlace.
        referenced: the files that are there, and to which messages refer.
        reference_count: messages that refer to a file of the place.
        read: whether the content of each file was compared too.
        missing: what is missing or differs: one message for each file.
        errors: why stores did not answer: nothing is known of their messages.
    """

    place: str
    location: str
    referenced: FileTotal
    reference_count: int
    read: bool
    missing: tuple[MissingPayload, ...]
    errors: Mapping[str, RelayboxError]


def read_status(
    place: PayloadPlace, stores: Sequence[Store], *, details: bool = False, progress: Progress | None = None
) -> PlaceStatus:
    """Lists a place, and counts who refers to its files.

    Raises:
        PayloadsUnavailable: the place can't be reached.
    """
    tell = progress or tell_nobody
    payloads = PayloadStore(place.location)
    place_id = payloads.read_place("listing it")
    listing = list_place(payloads.files)
    tell("files listed", len(listing.files))
    said = ask_stores(place_id, stores, tell)
    grace = datetime.now(UTC) - timedelta(seconds=max(place.grace_seconds, place.keep_seconds))
    states = [*_states(listing, said, grace)]
    by_state: dict[str, list[FileState]] = {}
    for one in states:
        by_state.setdefault(one.state, []).append(one)
    files = {state: FileTotal(len(ones), sum(one.bytes for one in ones)) for state, ones in sorted(by_state.items())}
    states.sort(key=lambda one: (one.since, one.ref))
    return PlaceStatus(
        place=place.name,
        location=place.location,
        files=files,
        oldest=min((one.since for one in states), default=None),
        reference_count=said.reference_count,
        partial_count=len(listing.partials),
        unknown_count=len(listing.unknown),
        stores=tuple(read_place_stores(payloads.files)),
        details=tuple(states) if details else (),
        errors=said.errors,
    )


def check_place(
    place: PayloadPlace, stores: Sequence[Store], *, read: bool = False, progress: Progress | None = None
) -> PlaceChecked:
    """Compares each file to which a message refers with what the message says of it: its length, and if asked for its content.

    Raises:
        PayloadsUnavailable: the place can't be reached.
    """
    tell = progress or tell_nobody
    payloads = PayloadStore(place.location)
    place_id = payloads.read_place("checking it")
    said = ask_stores(place_id, stores, tell)
    listing = list_place(payloads.files)  # after the references: their files were there before them
    tell("files listed", len(listing.files))
    wrong = _compare(payloads.files, listing, said, tell, read=read)
    if wrong:  # retention may have dropped the message meanwhile, and a collection its file
        still = ask_stores(place_id, stores, tell).samples
        wrong = [one for one in wrong if one.ref in still]
    there = (listing.files[ref] for ref in said.samples if ref in listing.files)
    return PlaceChecked(place.name, place.location, FileTotal.of(there), said.reference_count, read, tuple(wrong), said.errors)


@dataclass
class SaidReferences:
    """What stores say of a place: a message for each file, and how many there are."""

    samples: dict[str, tuple[str, StoreReference]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    errors: dict[str, RelayboxError] = field(default_factory=dict)

    @property
    def reference_count(self) -> int:
        return self.counts.total()


def ask_stores(place_id: str, stores: Iterable[Store], tell: Progress) -> SaidReferences:
    """A store that does not answer hides no other one."""
    said = SaidReferences()
    for store in stores:
        try:
            with store_session(
                store, "reading which payloads its messages refer to", application_name="relaybox payloads"
            ) as session:
                for number, one in enumerate(read_references(session)):
                    if one.place == place_id and one.ref is not None:
                        said.counts[one.ref] += 1
                        said.samples.setdefault(one.ref, (store.name, one))
                    if number % _TOLD_EACH == 0:
                        tell(f"references read, those of {store.name} now", said.reference_count)
        except RelayboxError as error:
            said.errors[store.name] = error
    return said


_TOLD_EACH = 10_000


def _states(listing: PlaceListing, said: SaidReferences, grace: datetime) -> Iterable[FileState]:
    for file in listing.files.values():
        count = said.counts.get(file.ref, 0)
        otherwise = "young" if file.since >= grace else ("unknown" if said.errors else "unreferenced")
        yield FileState(file.ref, file.bytes, file.since, "referenced" if count else otherwise, count)
    for one in listing.trash:
        yield FileState(one.ref, one.bytes, one.trashed_at, "trash", said.counts.get(one.ref, 0))


def _compare(
    files: PlaceFiles, listing: PlaceListing, said: SaidReferences, tell: Progress, *, read: bool
) -> list[MissingPayload]:
    trashed = {one.ref for one in listing.trash}
    wrong = []
    for number, (ref, (store, reference)) in enumerate(said.samples.items()):
        if number % (100 if read else _TOLD_EACH) == 0:
            tell("files compared", number)
        found = listing.files.get(ref)
        if found is None:
            problem: str | None = "in the trash" if ref in trashed else "missing"
        elif found.bytes != reference.bytes:
            problem = f"has {found.bytes} bytes, expected {reference.bytes}"
        else:
            problem = _compare_content(files, reference, found.bytes) if read else None
        if problem is not None:
            wrong.append(MissingPayload(store, reference.held_in, reference.position, ref, problem))
    return wrong


def _compare_content(files: PlaceFiles, reference: StoreReference, length: int) -> str | None:
    ref = str(reference.ref)
    try:
        digest = digest_of(files.read(ref, f"reading {ref}", at_most=length + 1))
    except FileNotFoundError:
        return "missing"
    return None if digest == reference.digest else f"has {digest}, expected {reference.digest}"
