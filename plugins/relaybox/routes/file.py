"""Reads the text of relaybox.yaml into plain values, and the line of each.

The file is trusted no further than text: mappings, lists, text, numbers, booleans and null come out of it, nothing else.
Tags are refused, a date stays text. Size, depth and the number of values are bounded, each alias counted as a full copy of
what it stands for. What the values mean is the business of `route_rules`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from relaybox.errors import ConfigurationError
from relaybox.routes.problems import Location, Problem, report, show

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 16
MAX_VALUES = 50_000
MAX_TEXT_LENGTH = 200
MAX_SQL_LENGTH = 20_000
"""Of `derive.sql` and `derive.next.sql`, the only values that are programs."""
_OF_PROGRAMS = (("derive", "sql"), ("derive", "next", "sql"))
SMALLEST_FILE = (
    "The smallest file: {stores: {airline: {}, hub: {}}, routes: {flights: {topics: [flights], path: [airline, hub]}}}"
)

_MAPPING_TAG = "tag:yaml.org,2002:map"
_SEQUENCE_TAG = "tag:yaml.org,2002:seq"
_SCALAR_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null"))


@dataclass(frozen=True)
class RouteFile:
    """What the file says.

    Attributes:
        path: where it is, for messages.
        document: its values; None for an empty file.
        lines: the line, from 1, of each value.
        problems: what was wrong in reading single values; the others were read all the same.
    """

    path: Path
    document: object
    lines: dict[Location, int]
    problems: list[Problem]


def read_text(path: Path) -> str:
    """Reads the file at `path`.

    Raises:
        ConfigurationError: the file is not there, may not be read, is not UTF-8, or is larger than a sane file can be.
    """
    content = _read_bytes(path)
    with _named(path):
        return _decode(content)


def parse_route_file(path: Path, text: str) -> RouteFile:
    """The values of a text; `path` is for messages.

    Raises:
        ConfigurationError: it is no YAML, or nested deeper than a sane file can be.
    """
    with _named(path):
        return _read_document(path, text)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except _Unreadable as error:
        raise ConfigurationError(report(path, [Problem((), error.reason)], {(): error.line})) from None


class _Unreadable(Exception):
    """The text cannot be read any further."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        next_step = f"Write it, or set RELAYBOX_CONFIG to where it is. {SMALLEST_FILE}"
        raise ConfigurationError(f"{path}: no such file.", next_step=next_step) from None
    except OSError as error:
        next_step = "Check the path and who may read it."
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror}).", next_step=next_step) from None
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{path}: larger than {MAX_BYTES:,} bytes.", next_step="Check the path.")
    return content


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _Unreadable(f"byte {error.start} is not UTF-8; save the file as UTF-8", line) from None


def _read_document(path: Path, text: str) -> RouteFile:
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _Unreadable(f"the character U+{ord(text[error.position]):04X} is not allowed in YAML", line) from None
    node = _compose(loader)
    reader = _ValueReader(loader)
    document = None if node is None else reader.value(node, ())
    return RouteFile(path, document, reader.lines, reader.problems)


class _Loader(yaml.SafeLoader):
    """A SafeLoader that stops at its bounds."""

    _depth = 0
    _count = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        self._count += 1
        _check_bounds(self._depth, self._count, self.line + 1)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _check_bounds(depth: int, count: int, line: int) -> None:
    if depth > MAX_DEPTH:
        raise _Unreadable(f"nested more than {MAX_DEPTH} deep, each alias counted as a copy", line)
    if count > MAX_VALUES:
        raise _Unreadable(f"more than {MAX_VALUES:,} keys and values, each alias counted as a copy", line)


def _compose(loader: _Loader) -> yaml.Node | None:
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise _Unreadable(f"not YAML: {reason}", mark.line + 1 if mark else 1) from None
    except (ValueError, OverflowError):  # PyYAML lets these through, for "\U00110000" among others
        raise _Unreadable("not YAML: an escape or a directive holds an impossible number", loader.line + 1) from None


class _ValueReader:
    """Turns YAML nodes into plain values, noting their lines and what is wrong with single ones."""

    def __init__(self, loader: _Loader) -> None:
        self.lines: dict[Location, int] = {}
        self.problems: list[Problem] = []
        self._loader = loader
        self._count = 0

    def value(self, node: yaml.Node, location: Location) -> object:
        line = node.start_mark.line + 1
        self._count += 1
        _check_bounds(len(location) + 1, self._count, line)  # again, since a node stands here once per alias
        self.lines.setdefault(location, line)  # a mapping has already noted the line of its key
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node, location)
        return self._scalar(node, location)

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, object]:
        self._has_tag(node, _MAPPING_TAG, location)
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node, location)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                self._problem(location, f"the key at line {line} is no text; write it in quotes")
            elif key in values:
                first = self.lines[(*location, key)]
                self._problem((*location, key), f"written twice, at line {first} and at line {line}; keep one")
            else:
                self.lines[(*location, key)] = line
                values[key] = self.value(value_node, (*location, key))
        return values

    def _sequence(self, node: yaml.SequenceNode, location: Location) -> list[object]:
        self._has_tag(node, _SEQUENCE_TAG, location)
        return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]

    def _scalar(self, node: yaml.Node, location: Location) -> object:
        """The value of a scalar, dates and merge keys as text; None for a mapping or a list, which only a key can be here."""
        if not isinstance(node, yaml.ScalarNode):
            return None
        longest = MAX_SQL_LENGTH if location[2:] in _OF_PROGRAMS else MAX_TEXT_LENGTH
        if len(node.value) > longest:
            self._problem(location, f"a text of {len(node.value):,} characters; at most {longest:,} are read")
            return node.value[:longest]
        plain = node.style is None
        untagged = self._loader.resolve(yaml.ScalarNode, node.value, (plain, not plain))  # type: ignore[no-untyped-call]
        if not self._has_tag(node, untagged, location) or untagged not in _SCALAR_TAGS:
            return node.value
        try:
            return self._loader.construct_object(node)
        except ValueError:  # PyYAML takes `0b_` for a number until it reads it
            self._problem(location, f"{show(node.value)} cannot be read as a number; write text in quotes")
            return node.value

    def _has_tag(self, node: yaml.Node, untagged: str, location: Location) -> bool:
        """Whether the node has the tag that it would have if none were written; any other one is refused."""
        if node.tag != untagged:
            self._problem(location, f"the tag {show(node.tag)} is refused; write the value without it")
        return bool(node.tag == untagged)

    def _problem(self, location: Location, text: str) -> None:
        self.problems.append(Problem(location, text))
