"""What an administrator may have set of a server, a database or a role: an axis of the matrix beside the faults.

Each setting is in force for everybody: drivers, `relaybox init`, producers, consumers and subscribers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg2

from relaybox.local.clusters import Cluster
from tests.support.world import wait_until


@dataclass(frozen=True)
class Setting:
    """Assignments that belong together, each a name and a value as SQL writes it; or statements that a database is prepared with."""

    name: str
    assignments: tuple[tuple[str, str], ...] = ()
    statements: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _one(text: str) -> Setting:
    """A line of the list below."""
    name, value = text.split(" = ", maxsplit=1)
    return Setting(text.replace("'", ""), ((name, value),))


_BEHAVIOUR = """
default_transaction_isolation = 'repeatable read'
default_transaction_isolation = serializable
default_transaction_read_only = on
default_transaction_deferrable = on
synchronous_commit = off
synchronous_commit = local
synchronous_commit = remote_apply
statement_timeout = '2s'
lock_timeout = '100ms'
transaction_timeout = '2s'
idle_in_transaction_session_timeout = '500ms'
idle_session_timeout = '1s'
client_connection_check_interval = '1s'
exit_on_error = on
session_replication_role = replica
row_security = off
transform_null_equals = on
restrict_nonsystem_relation_kind = 'view'
event_triggers = off
client_min_messages = error
client_min_messages = debug5
lc_messages = 'POSIX'
lc_numeric = 'POSIX'
search_path = ''
search_path = nowhere
search_path = relaybox, public
TimeZone = 'Asia/Kathmandu'
DateStyle = 'SQL, DMY'
DateStyle = 'German, DMY'
DateStyle = 'Postgres, MDY'
IntervalStyle = 'iso_8601'
IntervalStyle = 'sql_standard'
bytea_output = escape
extra_float_digits = -15
client_encoding = 'LATIN1'
standard_conforming_strings = off
backslash_quote = off
backslash_quote = on
quote_all_identifiers = on
array_nulls = off
check_function_bodies = off
"""

_COST = """
commit_delay = 1000
deadlock_timeout = '5ms'
lo_compat_privileges = on
lc_time = 'POSIX'
lc_monetary = 'POSIX'
log_statement = 'all'
log_duration = on
log_min_duration_statement = 0
log_min_messages = debug1
log_error_verbosity = verbose
log_statement_stats = on
log_lock_waits = on
log_temp_files = 0
log_replication_commands = on
track_activities = off
track_functions = 'all'
track_io_timing = on
timezone_abbreviations = 'Australia'
escape_string_warning = off
xmlbinary = hex
xmloption = document
default_text_search_config = 'pg_catalog.simple'
wal_compression = on
work_mem = '64kB'
maintenance_work_mem = '1MB'
hash_mem_multiplier = 1
temp_buffers = '800kB'
temp_file_limit = '64MB'
logical_decoding_work_mem = '64kB'
plan_cache_mode = force_generic_plan
plan_cache_mode = force_custom_plan
enable_async_append = off
enable_bitmapscan = off
enable_distinct_reordering = off
enable_gathermerge = off
enable_group_by_reordering = off
enable_hashagg = off
enable_hashjoin = off
enable_incremental_sort = off
enable_indexonlyscan = off
enable_indexscan = off
enable_material = off
enable_memoize = off
enable_mergejoin = off
enable_nestloop = off
enable_parallel_append = off
enable_parallel_hash = off
enable_partition_pruning = off
enable_partitionwise_aggregate = on
enable_partitionwise_join = on
enable_presorted_aggregate = off
enable_self_join_elimination = off
enable_seqscan = off
enable_sort = off
enable_tidscan = off
constraint_exclusion = off
from_collapse_limit = 1
join_collapse_limit = 1
geqo_threshold = 2
random_page_cost = 1000
cpu_index_tuple_cost = 100
effective_cache_size = '8kB'
cursor_tuple_fraction = 0
default_statistics_target = 1
recursive_worktable_factor = 1000
debug_parallel_query = on
debug_parallel_query = regress
debug_discard_caches = 0
stats_fetch_consistency = snapshot
synchronize_seqscans = off
gin_fuzzy_search_limit = 1
max_stack_depth = '100kB'
parallel_leader_participation = off
max_parallel_workers_per_gather = 0
vacuum_cost_delay = 10
createrole_self_grant = 'set, inherit'
password_encryption = md5
"""

EXEMPT = {
    "application_name": "each session has its own",
    "transaction_*": "each transaction has its own",
    "tcp_*": "each of our sessions says it to libpq; the server's end is tested by cut networks",
    "wal_sender_timeout": "of standbys",
    "debug_logical_replication_streaming": "of logical replication",
    "output_plugin_libraries": "of logical replication",
    "default_toast_compression": "this server was built with one method",
    "log_*_stats": "log_statement_stats stands for them, which excludes the others",
    "*_path": "where files of extensions are",
    "local_preload_libraries": "session_preload_libraries stands for it",
    "allow_*": "for developers of Postgres",
    "backtrace_functions": "for developers of Postgres",
    "jit_dump_bitcode": "for developers of Postgres",
    "wal_consistency_checking": "for developers of Postgres",
    "ignore_checksum_failure": "for salvage of a broken disk",
    "zero_damaged_pages": "for salvage of a broken disk",
}
"""Settings of sessions that are not struck, and why."""

_OTHER_METHOD = "create access method other type table handler heap_tableam_handler"

_TOGETHER = (
    Setting("jit of everything", (("jit", "on"), ("jit_above_cost", "0"), ("jit_inline_above_cost", "0"))),
    Setting(
        "parallel at once",
        (("parallel_setup_cost", "0"), ("parallel_tuple_cost", "0"), ("min_parallel_table_scan_size", "0")),
    ),
    Setting("statements told to clients", (("log_statement", "'all'"), ("client_min_messages", "log"))),
    Setting("durations told to clients", (("log_min_duration_statement", "0"), ("client_min_messages", "log"))),
    Setting(
        "auto_explain warns of each statement",
        (
            ("session_preload_libraries", "'auto_explain'"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_nested_statements", "on"),
            ("auto_explain.log_level", "'warning'"),
        ),
    ),
    Setting("default_tablespace = elsewhere", (("default_tablespace", "elsewhere"), ("temp_tablespaces", "elsewhere"))),
    Setting("temp_tablespaces = nowhere", (("temp_tablespaces", "nowhere"),)),
    Setting(
        "default_table_access_method = other",
        (("default_table_access_method", "other"),),
        (_OTHER_METHOD,),
    ),
    Setting(
        "event triggers that warn and set",
        (),
        (
            """
            create function public.warn() returns event_trigger language plpgsql as $$
            begin
                raise warning 'DDL: %', tg_tag;
                perform set_config('search_path', 'nowhere', true), set_config('client_min_messages', 'error', true);
            end $$
            """,
            "create event trigger warn_at_end on ddl_command_end execute function public.warn()",
            "create event trigger warn_at_start on ddl_command_start execute function public.warn()",
        ),
    ),
)

_REST = """
log_lock_failures = on
log_parameter_max_length = 10
log_parameter_max_length_on_error = 10
log_min_duration_sample = 0
log_min_error_statement = debug5
log_statement_sample_rate = 0.5
log_transaction_sample_rate = 0.5
debug_print_parse = on
debug_print_plan = on
debug_print_rewritten = on
debug_pretty_print = off
trace_notify = on
trace_sort = on
update_process_title = off
track_cost_delay_timing = on
track_counts = off
track_wal_io_timing = on
compute_query_id = on
wal_init_zero = off
wal_recycle = off
wal_skip_threshold = 0
commit_siblings = 0
icu_validation_level = disabled
gin_pending_list_limit = '64kB'
md5_password_warnings = off
scram_iterations = 1
geqo = off
geqo_effort = 10
geqo_generations = 1
geqo_pool_size = 1
geqo_seed = 1
geqo_selection_bias = 1.5
cpu_operator_cost = 1
cpu_tuple_cost = 1
seq_page_cost = 0
jit_expressions = off
jit_tuple_deforming = off
jit_optimize_above_cost = 0
min_parallel_index_scan_size = 0
max_parallel_workers = 0
max_parallel_maintenance_workers = 0
backend_flush_after = '8kB'
effective_io_concurrency = 0
io_combine_limit = '8kB'
maintenance_io_concurrency = 0
file_copy_method = copy
vacuum_buffer_usage_limit = '128kB'
vacuum_cost_limit = 1
vacuum_cost_page_dirty = 1
vacuum_cost_page_hit = 2
vacuum_cost_page_miss = 1
vacuum_truncate = off
vacuum_failsafe_age = 0
vacuum_freeze_min_age = 0
vacuum_freeze_table_age = 0
vacuum_max_eager_freeze_failure_rate = 0
vacuum_multixact_failsafe_age = 0
vacuum_multixact_freeze_min_age = 0
vacuum_multixact_freeze_table_age = 0
"""

DECISIVE: tuple[Setting, ...] = (*map(_one, _BEHAVIOUR.strip().splitlines()), *_TOGETHER)
"""They change what a statement means, whether it may run, or what an answer looks like."""

HARMLESS: tuple[Setting, ...] = (
    *map(_one, _COST.strip().splitlines()),
    Setting("costs, logs and vacuum", tuple(_one(line).assignments[0] for line in _REST.strip().splitlines())),
)
"""They should change only what a statement costs, or what the server writes down of it."""

AT_ONCE = Setting(
    "all at once",
    tuple({name: (name, value) for one in (*HARMLESS, *DECISIVE) for name, value in one.assignments}.values()),
    tuple(statement for one in DECISIVE for statement in one.statements),
)
"""Of settings with several values the last one."""

SIMPLE = tuple(one for one in (*DECISIVE, *HARMLESS) if not one.statements and "elsewhere" not in one.name)
"""Those that a store can get, lose and get again at any time, and that need nothing of their cluster."""

PRESET = (
    "alter system set allow_in_place_tablespaces = on",
    "select pg_reload_conf()",
    "create tablespace elsewhere location ''",
    _OTHER_METHOD,
)
"""What a cluster needs before some of them can be set, once."""


def set_for_role(cluster: Cluster, database: str, settings: Sequence[Setting]) -> None:
    """For the sessions that the login of this cluster opens from now on in one database."""
    _set(cluster, database, settings, f"role {cluster.user} in database {database}")


def set_for_database(cluster: Cluster, database: str, settings: Sequence[Setting]) -> None:
    """For the sessions that anybody opens from now on in one database."""
    _set(cluster, database, settings, f"database {database}")


def reset_all(cluster: Cluster, database: str) -> None:
    """Takes back what set_for_role() and set_for_database() have set."""
    of_role = f"alter role {cluster.user} in database {database} reset all"
    _execute(cluster, "postgres", [of_role, f"alter database {database} reset all"])


def _set(cluster: Cluster, database: str, settings: Sequence[Setting], whose: str) -> None:
    for setting in settings:
        _execute(cluster, database, setting.statements)
    _execute(cluster, "postgres", [f"alter {whose} set {name} = {value}" for name, value in _assignments(settings).items()])


@contextmanager
def set_for_servers(clusters: Sequence[Cluster], settings: Sequence[Setting]) -> Iterator[None]:
    """For everybody who has not set it otherwise, in sessions that run, too. Taken back with the context."""
    names = list(_assignments(settings))
    try:
        for cluster in clusters:
            _reload(cluster, [f"alter system set {name} = {value}" for name, value in _assignments(settings).items()])
        yield
    finally:
        for cluster in clusters:
            _reload(cluster, [f"alter system reset {name}" for name in names])


def _reload(cluster: Cluster, statements: Sequence[str]) -> None:
    """Returns when sessions have the new configuration, as far as they take it while they run."""
    (before,) = _execute(cluster, "postgres", ["select pg_conf_load_time()"])
    _execute(cluster, "postgres", [*statements, "select pg_reload_conf()"])
    wait_until(
        lambda: _execute(cluster, "postgres", ["select pg_conf_load_time()"]) != [before], "the configuration is read again"
    )


def _assignments(settings: Sequence[Setting]) -> Mapping[str, str]:
    return dict(assignment for setting in settings for assignment in setting.assignments)


def _execute(cluster: Cluster, database: str, statements: Sequence[str]) -> list[tuple[object, ...]]:
    """Rows of the last one."""
    options = "-c default_transaction_read_only=off -c default_transaction_isolation=read\\ committed -c statement_timeout=0"
    with closing(psycopg2.connect(**cluster.parameters(database), options=options)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []
