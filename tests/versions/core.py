"""The core of the suite: what runs on every version of Postgres that a store may run, and on every version of Python."""

from __future__ import annotations

CORE = (
    "tests/integration/test_schema.py",
    "tests/integration/test_init_script.py",
    "tests/upgrades",
    "tests/integration/test_query_plans.py",
    "tests/integration/test_session_settings.py",
    "tests/integration/test_owner_login.py",
    "tests/integration/test_rights.py",
    "tests/integration/test_g1_atomic_send.py",
    "tests/integration/test_g2_no_skip.py",
    "tests/integration/test_g3_no_duplicate.py",
    "tests/integration/test_g4_dense_log.py",
    "tests/integration/test_g5_order_kept.py",
    "tests/integration/test_g6_chosen_order.py",
    "tests/integration/test_g7_true_confirmations.py",
    "tests/integration/test_g7_processed.py",
    "tests/integration/test_g8_safe_retention.py",
    "tests/integration/test_g9_replay.py",
    "tests/integration/test_g10_handlers_own_transactions.py",
    "tests/integration/test_g12_conservation.py",
    "tests/integration/test_pairs_of_snapshots.py",
    "tests/integration/test_subscriptions.py",
    "tests/integration/test_consuming.py",
    "tests/integration/test_fetch_tokens.py",
    "tests/integration/test_dead_letters.py",
    "tests/integration/test_lanes.py",
    "tests/integration/test_status.py",
    "tests/integration/test_store_metrics.py",
    "tests/integration/test_verify.py",
    "tests/integration/test_detaching.py",
    "tests/delivery/test_brute.py",
)
"""Schema, hop, order, consumers, retention and upgrade."""

OLDEST_CORE = (
    "tests/upgrades/test_tables.py",
    "tests/upgrades/test_init_scripts.py",
    "tests/integration/test_init_script.py::test_a_new_store_is_what_init_makes",
    "tests/integration/test_session_settings.py",
    "tests/integration/test_query_plans.py",
    "tests/integration/test_g3_no_duplicate.py",
    "tests/integration/test_g6_chosen_order.py",
    "tests/integration/test_subscriptions.py",
)
"""What `make test-all` tries on the oldest version."""

PYTHON_CORE = (
    "tests/unit",
    "tests/integration/test_consumers_cli.py",
    "tests/integration/test_status.py",
    "tests/integration/test_verify.py",
    "tests/integration/test_g3_no_duplicate.py",
)
"""Rules and decisions, and commands on real stores."""

LOWEST_CORE = ("tests/airflow", "tests/spark")
"""What depends on the versions of Airflow, of its providers and of Spark."""
