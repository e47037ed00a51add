"""mutmut's bugs in modules that work on stores, each as the text of the whole module.

What an error, an event or a failpoint says is left as it is: a test that repeats words shows nothing. list_bugs says how many bugs
that leaves out.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import libcst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import Mutation, create_mutations, deep_replace
from mutmut.mutation.trampoline_templates import mangle_function_name

from tests.mutants.mutants import REPOSITORY

MODULES = (
    "hops.confirmations",
    "hops.copying",
    "hops.planning",
    "hops.publishing",
    "hops.transfer",
    "stores.binary_copy.frame_relay",
    "stores.binary_copy.pipe",
)
WORDS = frozenset({"emit", "warn", "reach", "store_errors", "progress", "Progress"})
"""Calls whose arguments are words for people, or names of failpoints; `raise errors.NAME(...)` is one as well."""

NAMES_OF_FAILPOINTS = frozenset({"commit", "commit_durably"})
"""Calls of which the text only is a name of a failpoint."""


Parents = Mapping[libcst.CSTNode, libcst.CSTNode]


@dataclass(frozen=True)
class PythonBug:
    """One bug of one function of a module."""

    name: str
    path: Path
    lines: range
    function_lines: range
    line: str
    becomes: str
    text: str

    @property
    def function(self) -> str:
        return self.name.partition("__mutmut_")[0]

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.name}\n{self.text}".encode()).hexdigest()

    @property
    def site(self) -> tuple[str, str, str]:
        """How equivalents.toml names it: it outlives other changes of the module."""
        return self.function, self.line, self.becomes


@dataclass(frozen=True)
class Bugs:
    """Those to try, and how many change only words."""

    found: tuple[PythonBug, ...]
    in_words: int


def source_of(module: str, repository: Path = REPOSITORY) -> Path:
    return repository / "plugins" / "relaybox" / f"{module.replace('.', '/')}.py"


def list_bugs(modules: Iterable[str] = MODULES) -> Bugs:
    """In the order of the names that mutmut gives them."""
    found, in_words = [], 0
    for module in modules:
        text = source_of(module).read_text(encoding="utf-8")
        for bug in _bugs_of(module, text):
            if bug is None:
                in_words += 1
            else:
                found.append(bug)
    return Bugs(tuple(sorted(found, key=lambda bug: bug.name)), in_words)


def _bugs_of(module: str, text: str) -> Iterator[PythonBug | None]:
    """None: only words would change."""
    tree, mutations, *_ = _create_mutations(module, text)
    wrapper = MetadataWrapper(tree, unsafe_skip_copy=True)
    log_positions, parents = wrapper.resolve(PositionProvider), wrapper.resolve(ParentNodeProvider)
    numbers: Counter[libcst.FunctionDef] = Counter()
    code: dict[libcst.CSTNode, str] = {}
    for mutation in mutations:
        function = mutation.contained_by_top_level_function
        if not isinstance(function, libcst.FunctionDef):
            continue
        numbers[function] += 1
        if _is_in_words(mutation.original_node, parents) or _renames_failpoint(mutation):
            yield None
            continue
        statement = _statement_of(function, tree, parents)
        before = code[statement] = code.get(statement) or tree.code_for_node(statement)
        after = tree.code_for_node(deep_replace(statement, mutation.original_node, mutation.mutated_node))
        line, becomes = _first_difference(before, after)
        around, whole = (_lines(log_positions[node]) for node in (mutation.original_node, function))
        name = f"relaybox.{module}.{_mangled(function, statement)}__mutmut_{numbers[function]}"
        yield PythonBug(name, source_of(module), around, whole, line, becomes, text.replace(before, after, 1))


def _create_mutations(module: str, text: str) -> tuple[libcst.Module, list[Mutation], set[str], set[str]]:
    """mutmut reads its settings from the pyproject.toml of the current directory."""
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        Path("pyproject.toml").write_text('[tool.mutmut]\nsource_paths = ["."]\n', encoding="utf-8")
        return create_mutations(module, text)


def _is_in_words(node: libcst.CSTNode, parents: Parents) -> bool:
    """Whether a node is in the arguments of an error, an event or a failpoint, or is the call itself."""
    above: libcst.CSTNode | None = node
    if isinstance(node, libcst.SimpleString) and _called(parents[parents[node]]) in NAMES_OF_FAILPOINTS:
        return True
    while above is not None and not isinstance(above, libcst.FunctionDef):
        if isinstance(above, libcst.Raise):
            return True
        if _called(above) in WORDS:
            return True
        above = parents.get(above)
    return False


def _renames_failpoint(mutation: Mutation) -> bool:
    """Whether a call's first argument stays as it is, and only the name after it goes."""
    before, after = mutation.original_node, mutation.mutated_node
    if not (isinstance(before, libcst.Call) and isinstance(after, libcst.Call) and _called(before) in NAMES_OF_FAILPOINTS):
        return False
    return bool(after.args) and after.args[0] is before.args[0]


def _called(call: libcst.CSTNode | None) -> str:
    """The name of what is called, without what is before its last dot."""
    if not isinstance(call, libcst.Call):
        return ""
    if isinstance(call.func, libcst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, libcst.Name) else ""


def _statement_of(function: libcst.FunctionDef, tree: libcst.Module, parents: Parents) -> libcst.CSTNode:
    """The function itself, or the class that it is a method of."""
    statement: libcst.CSTNode = function
    while parents[statement] is not tree:
        statement = parents[statement]
    return statement


def _mangled(function: libcst.FunctionDef, statement: libcst.CSTNode) -> str:
    class_name = statement.name.value if isinstance(statement, libcst.ClassDef) else None
    return mangle_function_name(name=function.name.value, class_name=class_name)


def _lines(log_position: object) -> range:
    return range(log_position.start.line, log_position.end.line + 1)


def _first_difference(text: str, mutated: str) -> tuple[str, str]:
    """The first line that differs, and the first that came in its site."""
    lines = list(difflib.unified_diff(text.splitlines(), mutated.splitlines(), lineterm="", n=0))[2:]
    removed = next((line[1:].strip() for line in lines if line.startswith("-")), "")
    return removed, next((line[1:].strip() for line in lines if line.startswith("+")), "")
