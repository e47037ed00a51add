"""The documents are true: their links lead somewhere, what they name exists, and their tables are the lists that the code has."""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path

import pytest

from relaybox import aio, consumer, errors, routes
from relaybox.routes.rules import (
    AdoptRules,
    DeriveRules,
    ExportRules,
    KafkaRules,
    LimitsRules,
    RetentionRules,
    RetriesRules,
    RouteRules,
    Rules,
    StoreRules,
    WebhookRules,
    fields_of,
)
from relaybox.stores.sessions.sqlstates import OWN_CODES
from relaybox.verification.stream_verification import VIOLATIONS
from tests.support.cli import commands

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
DOCUMENTS = [*(ROOT / page for page in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]


@functools.cache
def sources(folder: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    """Relative links and pictures."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def headings(document: Path) -> set[str]:
    """As links name them: lower case, blanks as hyphens, no punctuation."""
    texts = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_into_a_page_leads_to_a_heading(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text(encoding="utf-8"))
    targets = [(document.parent / path if path else document, heading) for path, heading in links]
    assert [(path.name, heading) for path, heading in targets if heading not in headings(path)] == []


def test_every_document_is_reached_from_the_readme() -> None:
    """By links; a link to a folder of docs/ leads to all that is in it."""
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop().resolve()
        if path in reached:
            continue
        reached.add(path)
        if path.is_dir() and path.is_relative_to(ROOT / "docs"):
            waiting += path.iterdir()
        elif path.suffix == ".md":
            waiting += [
                path.parent / link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
            ]
    assert {path for path in DOCUMENTS if path.name != "CHANGELOG.md"} - reached == set()
    files = {path for path in (ROOT / "docs").rglob("*") if path.is_file() and path.parent.name != "__pycache__"}
    assert files - reached == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_is_named_exists_and_has_the_options_it_is_given(document: Path) -> None:
    """`relaybox verify flights --json`; a group such as `relaybox senders` may be named alone."""
    known = commands()
    wrong = []
    for named in re.findall(
        r"(?:^|`|\| )(?:\$ )?relaybox ([a-z][^`|#\n]*)", document.read_text(encoding="utf-8"), flags=re.MULTILINE
    ):
        words = named.removeprefix("help").split()
        if words[:1] in ([], ["COMMAND"]):
            continue
        options = known.get(tuple(words[:2]), known.get(tuple(words[:1])))
        if options is None and not any(words[0] == group for group, *_ in known):
            wrong.append(named)
        elif options is not None:
            wrong += [named for option in re.findall(r"(?<!\S)--[a-z-]+", named) if option not in {*options, "--help"}]
    assert wrong == []


@functools.cache
def names_of_the_schema() -> frozenset[str]:
    """`relaybox.<name>` of each table, view, function or sequence; and of each module, metric of Airflow's, setting and file."""
    known = set(re.findall(r"\b(relaybox\w*\.\w+)", (ROOT / "sql/schema.sql").read_text(encoding="utf-8")))
    made = "\n".join(
        path.read_text(encoding="utf-8") for folder in ("functions", "views") for path in (ROOT / "sql" / folder).rglob("*.sql")
    )
    known |= set(re.findall(r"^create or replace (?:function|view) (\w+\.\w+)", made, flags=re.MULTILINE))
    known |= {f"relaybox.{path.stem}" for path in (ROOT / "plugins/relaybox").iterdir()}
    known |= set(re.findall(r'stats\.\w+\("(relaybox\.\w+)"', sources("plugins"))) | {
        "relaybox.yaml",
        "relaybox.ts",
        "relaybox.go",
    }
    known |= set(re.findall(r"set_config\('(relaybox\.\w+)'", sources("plugins")))
    return frozenset(known)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_everything_of_the_schema_that_is_named_exists(document: Path) -> None:
    """`relaybox.<name>` is a table, view, function or sequence; or a module, a metric of Airflow's, or a file."""
    named = set(re.findall(r"\b(relaybox(?:_internal)?\.\w+)", document.read_text(encoding="utf-8")))
    assert {
        name for name in named - names_of_the_schema() if not re.fullmatch(r"relaybox_internal\.(log_\d+|outbox_s\d+)", name)
    } == set()


@functools.cache
def names_of_tests() -> frozenset[str]:
    """Of functions and files."""
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    return frozenset(files | set(re.findall(r"def (test_\w+)\(", sources("tests"))))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_that_is_named_exists(document: Path) -> None:
    """Names in backquotes that begin with test_ are functions or files of tests/."""
    names = set(re.findall(r"`(test_\w+(?:\.py)?)`", document.read_text(encoding="utf-8")))
    assert names - names_of_tests() == set()


def test_the_table_of_log_events_is_the_list_of_events() -> None:
    """docs/monitoring.md names every event that the code emits, and no other."""
    emitted = set(re.findall(r'(?:emit|warn)\(\s*\n?\s*"(\w+)"', sources("plugins")))
    emitted |= set(
        re.findall(r'emit\(\s*"(\w+)" if .+ else "(\w+)"', sources("plugins"))
        and ["batch_planned", "batch_resumed", "slice_copied", "slice_found"]
    )
    emitted |= set(re.findall(r'failure_event="(\w+)"', sources("plugins")))
    section = section_of("docs/monitoring.md", "Log events")
    assert set(re.findall(r"^\| `(\w+)`", section, flags=re.MULTILINE)) == emitted


def test_the_table_of_errors_is_the_tree_of_errors() -> None:
    """docs/monitoring.md says of every error whether it is retried, as its class does."""
    section = section_of("docs/monitoring.md", "Errors")
    documented = {}
    for names, codes, retry in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]*)\| (yes|no) \|", section, flags=re.MULTILINE):
        errors_of_row = re.findall(r"\w+", names)
        documented |= dict.fromkeys(errors_of_row, retry == "yes")
        own = [code for code, error in OWN_CODES.items() if error.__name__ in errors_of_row]
        assert re.findall(r"\w+", codes) == sorted(own), names
    leaves = {
        cls.__name__: base is errors.Transient for base in (errors.Terminal, errors.Transient) for cls in base.__subclasses__()
    }
    assert documented == leaves


def section_of(document: str, heading: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_table_of_commands_is_the_list_of_commands() -> None:
    """docs/daily.md; groups such as `senders` by their name."""
    named = re.findall(r"^\| `relaybox ([a-z-]+)`", section_of("docs/daily.md", "Commands"), flags=re.MULTILINE)
    assert sorted(named) == sorted({words[0] for words in commands()})


def test_the_table_of_logins_is_the_list_of_commands() -> None:
    """docs/rights.md says of each command which login it needs, but for those that make stores of their own or ask none."""
    table = section_of("docs/rights.md", "Which login a command needs").strip().split("\n\n")[0]
    cells = "".join(re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE))
    named = {tuple(words.split()) for words in re.findall(r"`([a-z][a-z-]*(?: [a-z][a-z-]*)?)[^`]*`", cells)}
    known = {words for words in commands() if words[0] not in {"bench", "demo", "version"}}
    listed_by_default = {words for words in known if words[1:] == ("list",) and words[:1] in named}
    assert named == known - listed_by_default | {words[:1] for words in listed_by_default}


def test_the_table_of_variables_is_what_the_code_reads() -> None:
    """docs/operations.md names each RELAYBOX_ variable of the library, and no other."""
    read = set(re.findall(r"RELAYBOX_[A-Z_]+", sources("plugins")))
    assert set(re.findall(r"RELAYBOX_[A-Z_]+", section_of("docs/operations.md", "Environment variables"))) == read


def test_the_table_of_dags_is_the_list_of_their_ids() -> None:
    """docs/daily.md, with the clocks that start them."""
    section = section_of("docs/daily.md", "The DAGs")
    airflow = ROOT / "plugins/relaybox/airflow"
    ids = set(re.findall(r'"(relaybox_\w+?)(?:__\{.*)?"', (airflow / "naming.py").read_text(encoding="utf-8")))
    assert set(re.findall(r"`(relaybox_\w+?)(?:__<.*?)?`", section)) == ids
    for file, clock, words in (
        ("dags/factory.py", '"*/5 * * * *"', "every five minutes"),
        ("dags/factory.py", '"*/10 * * * *"', "every ten minutes"),
        ("dags/verify.py", '"0 4 * * *"', "at 04:00 UTC"),
        ("dags/retention.py", '"30 4 * * *"', "at 04:30 UTC"),
    ):
        assert clock in (airflow / file).read_text(encoding="utf-8")
        assert words in section


def test_the_table_of_violations_is_the_list_of_rules() -> None:
    """docs/daily.md, what `verify` checks of a stream."""
    table = section_of("docs/daily.md", "What a stream holds back").split("| violation |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE) == list(VIOLATIONS)


def test_the_functions_of_consumers_are_those_they_may_call() -> None:
    """docs/consuming.md: each with its parameters; `read_log` has a section of its own."""
    rights = (ROOT / "sql/functions/stores/list_role_rights.sql").read_text(encoding="utf-8")
    (names,) = re.findall(r"\('relaybox_consumer', array\[(.*?)\]\)", rights, flags=re.DOTALL)
    granted = set(re.findall(r"'(\w+)'", names))
    documented = {}
    for cell in re.findall(r"^\| (`.+?`) \|", section_of("docs/consuming.md", "In SQL"), flags=re.MULTILINE):
        documented |= dict(re.findall(r"`(\w+)\((.*?)\)`", cell))
    assert set(documented) == granted - {"read_log"}
    for function, parameters in documented.items():
        if parameters != "...":
            made = next((ROOT / "sql/functions").glob(f"*/{function}.sql")).read_text(encoding="utf-8")
            declared = re.search(
                rf"create or replace function relaybox\.{function}\((.*?)\)\s*(?:returns|language)", made, flags=re.DOTALL
            )
            assert declared
            names = [part.split()[0] for part in declared[1].split(",") if part.split()[0] != "out"]
            assert parameters.replace("stream,", "stream_name,") == ", ".join(names), function


def test_the_defaults_of_a_subscription_are_told() -> None:
    """docs/consuming.md, as sql/functions/subscriptions/subscribe.sql has them."""
    made = (ROOT / "sql/functions/subscriptions/subscribe.sql").read_text(encoding="utf-8")
    defaults = re.findall(r"(\w+) (?:integer|text|boolean) default ('?\w+'?)", made)
    (told,) = re.findall(r"Defaults: (.+?) \|", section_of("docs/consuming.md", "In SQL"))
    assert re.findall(r"`(\w+)` ('?\w+'?)", told) == [default for default in defaults if default[0] != "start"]


def test_the_options_of_consumers_are_told() -> None:
    """docs/consuming.md: each option of both clients, with its default if it has one."""
    table = section_of("docs/consuming.md", "In Python").split("| option | default | effect |\n")[1].split("\n\n")[0]
    told: dict[str, str] = {}
    for names, defaults in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]*) \|", table, flags=re.MULTILINE):
        told |= dict(zip(re.findall(r"\w+", names), defaults.split(", "), strict=True))
    of_thread, of_loop = (inspect.signature(client).parameters for client in (consumer.Consumer, aio.Consumer))
    options = {name: one.default for name, one in of_loop.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}
    assert told.keys() == options.keys() == {*of_thread, "handles_signals"} - {"store", "subscription"}
    for name, default in options.items():
        if default is not None:
            assert told[name] == (f"`{default}`" if isinstance(default, bool) else f"{default:g}"), name


def test_the_limits_that_applications_meet_are_told() -> None:
    """docs/applications.md, as the store has them."""

    def numbers(file: str, pattern: str) -> list[int]:
        return [int(number) for number in re.findall(pattern, (ROOT / "sql" / file).read_text(encoding="utf-8"))]

    message, subscribe = "functions/stores/accepts_message.sql", "functions/subscriptions/subscribe.sql"
    key, payload, _, headers, clock, senders = numbers(message, r"operator\(pg_catalog\.>\) (\d+)")
    (levels,), (name,) = set(numbers(message, r"\*\*\{(\d+)\}")), set(numbers(message, r"\{1,(\d+)\}\$"))
    subscriptions, lanes, topics = numbers("tables/1_store.sql", r"_per_role integer not null default (\d+)")
    (most_lanes,) = numbers("functions/subscriptions/require_settings.sql", r"lanes between 1 and (\d+)")
    (subscription,) = numbers("functions/subscriptions/require_settings.sql", r"\{1,(\d+)\}\$")
    (lease,), (nacks,) = (numbers(subscribe, rf"{option} integer default (\d+)") for option in ("lease_seconds", "nack_limit"))
    section = section_of("docs/applications.md", "Limits")
    assert dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, flags=re.MULTILINE)) == {
        "of": "at most",
        "a payload": f"{payload // 2**20} MiB",
        "the headers of a message": f"{headers // 2**10} KiB, {levels} levels",
        "a key": f"{key} characters",
        "a clock": f"{clock // 2**10} KiB, {levels} levels, {senders:,} senders",
        "a topic, a sender": f"{name} characters",
        "the name of a subscription": f"{subscription} characters",
        "a subscription": f"{most_lanes} lanes",
        "a login": f"{subscriptions} subscriptions, {lanes:,} lanes, {topics} topics of its own",
        "a fetch without acknowledgement": f"{lease} s (`lease_seconds`)",
        "refusals of a message": f"{nacks} (`nack_limit`)",
    }


@pytest.mark.parametrize(
    ("section", "rules"),
    [
        ("stores.<store>", StoreRules),
        ("stores.<store>.adopt.<table>", AdoptRules),
        ("routes.<route>", RouteRules),
        ("routes.<route>.derive", DeriveRules),
        ("routes.<route>.limits", LimitsRules),
        ("routes.<route>.retries", RetriesRules),
        ("routes.<route>.retention", RetentionRules),
        ("exports.<export>", ExportRules),
        ("webhooks.<webhook>", WebhookRules),
        ("kafka.<sink>", KafkaRules),
    ],
)
def test_the_tables_of_keys_are_the_rules_of_the_file(section: str, rules: type[Rules]) -> None:
    """At the head of relaybox.routes; sections of their own have tables of their own. Defaults that are numbers or words are compared."""
    table = (routes.__doc__ or "").split(f"**`{section}`**")[1].split("\n**")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, flags=re.MULTILINE))
    if section == "kafka.<sink>":  # from `store` on as those of a webhook
        webhook = (routes.__doc__ or "").split("**`webhooks.<webhook>`**")[1].split("\n**")[0]
        told |= dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", webhook[webhook.index("| `store` |") :], flags=re.MULTILINE))
    names = fields_of(rules)
    assert told.keys() - {"retention"} == names.keys() - {"limits", "retries", "retention", "spark", "derive"}
    for key, field in names.items():
        if type(field.default) in (int, float, str, bool):
            assert told[key].strip("`") == str(field.default).lower(), key


def test_every_denial_of_consumers_is_told() -> None:
    """docs/consuming.md has the SQLSTATEs that begin with RB03."""
    told = set(re.findall(r"RB03\d", (ROOT / "docs/consuming.md").read_text(encoding="utf-8")))
    assert told == {code for code in OWN_CODES if code.startswith("RB03")}


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    """`make demo` and `make test` exist, with their line of help."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"^make (\w+)", readme, flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
