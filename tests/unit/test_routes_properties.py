"""relaybox.yaml, for any content: a file is either understood or answered with a ConfigurationError."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from relaybox.errors import ConfigurationError
from relaybox.routes import Routes, load_routes

EXAMPLE = (Path(__file__).parents[2] / "docs" / "examples" / "relaybox.yaml").read_text()
DOCUMENT = yaml.safe_load(EXAMPLE)

words = st.sampled_from(
    [
        *("airline", "hub", "analytics", "flights", "received", "cascade", "service", "limits", "topics", "path", "[key]"),
        *("order", "stream", "fifo", "causal", "total"),
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=60) | st.dates() | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(scalars, inner, max_size=4),
    max_leaves=12,
)
names = st.from_regex(r"[a-z][a-z0-9_-]{0,29}", fullmatch=True)
topics = st.from_regex(r"[a-z0-9_.-]{1,48}", fullmatch=True)


YAML_PIECES = [*"[]{}:,-?&*!|>'\"%@`#\n\t ", "&a ", "*a", "!!int ", "!x ", "<<: ", "0b_", '"\\U00110000"', "---\n"]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("routes") / "relaybox.yaml"


def entries(section: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or index) of a document."""
    for key in section if isinstance(section, dict) else range(len(section)):
        yield section, key
        if isinstance(section[key], dict | list):
            yield from entries(section[key])


@st.composite
def damaged_documents(draw: st.DrawFn) -> Any:
    """The example with up to five of its values replaced, removed, renamed or added to."""
    document = copy.deepcopy(DOCUMENT)
    for _ in range(draw(st.integers(1, 5))):
        section, key = draw(st.sampled_from(list(entries(document)) or [({}, "x")]))
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                section[key] = draw(values)
            case "remove":
                section.pop(key, None) if isinstance(section, dict) else section.pop(key)
            case _ if isinstance(section, dict):
                section[draw(words | st.text(max_size=20))] = draw(values)
            case _:
                section.insert(key, draw(values))
    return document


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """The example with up to five pieces of text cut out or put in, often such as mean something to YAML."""
    text = EXAMPLE
    pieces = st.text(max_size=8) | st.sampled_from(YAML_PIECES)
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(pieces) + text[start + draw(st.integers(0, 30)) :]
    return text


def answer(config: Path, content: bytes) -> Routes | ConfigurationError:
    config.write_bytes(content)
    try:
        return load_routes(config)
    except ConfigurationError as error:
        return error


def assert_understood_or_refused(config: Path, content: bytes) -> None:
    answered = answer(config, content)
    if isinstance(answered, Routes):
        assert_sound(answered)
    else:
        assert str(config) in str(answered).split("\n")[0]


def assert_sound(routes: Routes) -> None:
    """What the rest of Relaybox relies on."""
    for hop in routes.hops:
        assert re.fullmatch(r"[a-z0-9_-]+/[0-9]+", hop.name)
        assert routes.hop(hop.name) == hop
        assert hop.source != hop.destination or hop.number == 1
        assert hop.origin == routes.route(hop.route).path[0]
        assert hop.order in ("none", "fifo", "causal", "total")
        assert re.fullmatch(r"[a-z][a-z0-9_-]{0,29}", hop.stream)
        assert 1 <= hop.limits.slice_rows <= hop.limits.batch_rows
        assert hop.retries.delay_seconds <= hop.retries.max_delay_seconds
        assert all(re.fullmatch(r"[a-z0-9_.-]{1,48}", topic) for topic in hop.topics)
    assert len({hop.name for hop in routes.hops}) == len(routes.hops)


@settings(deadline=None)
@given(document=damaged_documents())
def test_damaged_document_is_understood_or_refused(config: Path, document: Any) -> None:
    """Whatever stands in place of a value, the answer is Routes or a ConfigurationError."""
    assert_understood_or_refused(config, yaml.safe_dump(document, allow_unicode=True).encode())


@settings(deadline=None)
@given(text=damaged_texts())
def test_damaged_text_is_understood_or_refused(config: Path, text: str) -> None:
    """Whatever happens to the text of a good file, the answer is Routes or a ConfigurationError."""
    assert_understood_or_refused(config, text.encode(errors="surrogatepass"))


@settings(deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(config: Path, content: bytes) -> None:
    """A file that is no YAML at all is answered too."""
    assert_understood_or_refused(config, content)


@settings(deadline=None)
@given(
    stores=st.lists(names, min_size=2, max_size=8, unique=True),
    is_local=st.booleans(),
    route=names,
    carried=st.lists(topics, min_size=1, max_size=5, unique=True),
)
def test_good_files_become_chains(config: Path, stores: list[str], is_local: bool, route: str, carried: list[str]) -> None:
    """Every good path becomes a chain: each hop begins where the one before ended and reads its log."""
    path = [*stores[:1], *stores] if is_local else stores
    document = {"stores": {store: {} for store in path}, "routes": {route: {"topics": carried, "path": path}}}
    config.write_text(yaml.safe_dump(document))
    routes = load_routes(config)
    assert_sound(routes)
    hops = routes.hops
    assert [hop.source.name for hop in hops] + [hops[-1].destination.name] == path
    assert [hop.upstream for hop in hops] == [None, *(hop.name for hop in hops[:-1])]
    assert [hop.downstream for hop in hops] == [*(hop.name for hop in hops[1:]), None]
    assert all(hop.topics == tuple(carried) for hop in hops)
