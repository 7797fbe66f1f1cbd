# make demo      the main job on real data: Kafka topic to Delta table to SQL
# make test-unit the tests that need no JVM and no server; about 2 minutes
# make test      every capability once, through its real component; about 16 minutes
# make test-all  all tests but those of peers, the browser, and the nightly run
# make test-slow the slow tests that .ci/run adds to `make test`
# make test-peers delta-spark reads what Bayou writes, and the reverse
# make test-iceberg  Spark with Iceberg's runtime and DuckDB read the Iceberg metadata
# make test-airflow  the example DAG runs in Airflow
# make test-ui   the status page in a browser; needs Chromium, node and npm
# make pictures  the pictures of the status page in docs, from a real run; needs Chromium, node and npm
# make recording the picture of the demo in the README, from a real run; needs tmux
# make nightly   test-all, 10,000 steps of random histories, 100 kills, full fuzzing; takes hours
# make soak      a pipeline under load for MINUTES=30: memory, lag, small files
# make check     style, types, layers, docs
# make bench     benchmarks, each beside a peer
# make docs      write the pages of docs/reference that describe definitions in the code
# make site      build the documentation's site in .cache/site/html; needs node and npm
# make release   check that a release could go out, and build its packages in dist
# make deploy-check  check the image's steps, the Helm chart, the manifest and the workflows; needs Go
# make matrix    other versions of Python, PySpark and dependencies; takes an hour
# make clean     remove what runs leave behind (environments stay)

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-all test-slow test-peers test-iceberg test-airflow test-ui pictures recording nightly soak check bench docs site release deploy-check docker-requirements matrix clean java
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
PEERS := .venv-peers
PEERS_KAFKA := .venv-peers-kafka
OLDEST := .venv-oldest
OLDEST_PYSPARK := 4.2.0
BIN := $(VENV)/bin
# How many processes run the tests; each may start a Spark session of 2 GB. Three keep two cores busy while tests wait.
# 0: all in one.
JOBS ?= 3

# Spark's workers take the first python3 of the PATH unless told.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python

# Without it every Python process would compile Bayou, and pytest would rewrite every test, again.
unexport PYTHONDONTWRITEBYTECODE

help:
	@sed -n 's/^# //p' Makefile

java:
	@tools/require_java.sh

$(VENV)/.installed: pyproject.toml constraints.txt tools/environment.sh
	@tools/environment.sh $(VENV) constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@tools/environment.sh $(VENV) constraints.txt -e '.[dev]'
	@touch $@

$(PEERS)/.installed: tests/peers/constraints.txt tools/environment.sh
	@tools/environment.sh $(PEERS) tests/peers/constraints.txt pyspark delta-spark pandas pyarrow
	@touch $@

$(PEERS_KAFKA)/.installed: benchmarks/constraints-peers-kafka.txt tools/environment.sh
	@tools/environment.sh $(PEERS_KAFKA) benchmarks/constraints-peers-kafka.txt pyspark delta-spark pandas
	@touch $@

demo: java $(VENV)/.installed
	@exec $(BIN)/bayou demo

# The oldest PySpark, everything else as it is.
$(OLDEST)/.installed: pyproject.toml constraints.txt tools/environment.sh tools/spark_home.py
	@mkdir -p .cache && sed 's/^pyspark==.*/pyspark==$(OLDEST_PYSPARK)/' constraints.txt > .cache/constraints-oldest.txt
	@tools/environment.sh $(OLDEST) .cache/constraints-oldest.txt -e '.[spark]' 'pyspark[connect]'
	@$(OLDEST)/bin/python tools/spark_home.py $(OLDEST)/spark-home
	@touch $@

# Where tests start Spark.
$(VENV)/spark-home/classes.jsa: $(VENV)/.installed-dev tools/spark_home.py
	@$(BIN)/python tools/spark_home.py $(@D) --classes

# A worker process that crashes ends the run, and its test is named as failed.
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# These tests don't wait, so a process for each core is enough.
NOT_UNIT := $(addprefix --ignore tests/,conformance e2e integration property tools)
test-unit: JOBS := 2
test-unit: $(VENV)/.installed-dev
	@$(PYTEST) -m "not spark and not server and not slow" --hypothesis-profile unit $(NOT_UNIT)

test: java $(VENV)/spark-home/classes.jsa $(OLDEST)/.installed
	@$(BIN)/python tools/fetch_servers.py
	@BAYOU_OLDEST_PYTHON=$(CURDIR)/$(OLDEST)/bin/python $(PYTEST) -m "not slow"

test-slow: java $(VENV)/spark-home/classes.jsa
	@$(BIN)/python tools/fetch_servers.py
	@sed -e 's/ *#.*//' -e '/^$$/d' .ci/slow-tests.txt | tr '\n' '\0' | xargs -0 $(PYTEST) --hypothesis-profile full

test-all: java $(VENV)/spark-home/classes.jsa $(OLDEST)/.installed
	@$(BIN)/python tools/fetch_servers.py
	@BAYOU_OLDEST_PYTHON=$(CURDIR)/$(OLDEST)/bin/python $(PYTEST) --hypothesis-profile full

# Pipelines whose tables delta-spark reads at the end.
PIPELINES := tests/integration/plan
READ_BY_PEERS := $(PIPELINES)/test_all_features.py \
  $(PIPELINES)/test_plan.py::test_killed_at_random_points_nothing_is_lost_or_doubled \
  $(PIPELINES)/test_upserts.py::test_the_table_of_upserts_equals_a_dictionary \
  $(PIPELINES)/test_upserts.py::test_killed_at_random_points_the_table_equals_the_dictionary

test-peers: java $(VENV)/.installed-dev $(PEERS)/.installed $(OLDEST)/.installed
	@$(BIN)/python tools/fetch_servers.py
	@BAYOU_PEERS=$(CURDIR)/$(PEERS) BAYOU_OLDEST_PYTHON=$(CURDIR)/$(OLDEST)/bin/python \
	  $(BIN)/python -m pytest -q tests/peers $(READ_BY_PEERS)

ICEBERG := .venv-iceberg
$(ICEBERG)/.installed: tests/iceberg/constraints.txt tools/environment.sh
	@tools/environment.sh $(ICEBERG) tests/iceberg/constraints.txt pyspark pandas pyarrow pytz duckdb duckdb-extensions \
	  duckdb-extension-avro duckdb-extension-iceberg
	@touch $@

test-iceberg: java $(VENV)/.installed-dev $(ICEBERG)/.installed
	@BAYOU_ICEBERG=$(CURDIR)/$(ICEBERG) $(BIN)/python -m pytest -q tests/iceberg

AIRFLOW := .venv-airflow
$(AIRFLOW)/.installed: tests/airflow/constraints.txt tools/environment.sh
	@tools/environment.sh $(AIRFLOW) tests/airflow/constraints.txt apache-airflow
	@touch $@

test-airflow: $(VENV)/.installed-dev $(AIRFLOW)/.installed
	@BAYOU_AIRFLOW=$(CURDIR)/$(AIRFLOW) $(BIN)/python -m pytest -q tests/airflow

UI := .cache/ui
$(UI)/node_modules/.installed: tests/ui/package.json
	@mkdir -p $(UI) && cp tests/ui/package.json $(UI)/
	@npm install --prefix $(UI) --silent --no-audit --no-fund
	@touch $@

test-ui: $(VENV)/.installed-dev $(UI)/node_modules/.installed
	@BAYOU_UI=$(CURDIR)/$(UI)/node_modules $(BIN)/python -m pytest -q tests/ui

recording: java $(VENV)/.installed
	@$(BIN)/python tools/record_demo.py

pictures: java $(VENV)/.installed-dev $(UI)/node_modules/.installed
	@$(BIN)/python tools/pictures.py $(UI)/node_modules

NIGHTLY := $(BIN)/python -m pytest -q -s --timeout 36000 -o faulthandler_timeout=36000 --hypothesis-profile nightly

nightly: test-all
	@BAYOU_TEST_STEPS=$${BAYOU_TEST_STEPS:-10000} BAYOU_TEST_MIX=$${BAYOU_TEST_MIX:-20} \
	  BAYOU_TEST_FAULTS=$${BAYOU_TEST_FAULTS:-100000} \
	  $(NIGHTLY) tests/property tests/integration/test_concurrent_operations.py \
	  tests/integration/test_faults_everywhere.py tests/integration/test_killed_upkeep.py
	@BAYOU_TEST_KILLS=$${BAYOU_TEST_KILLS:-100} $(NIGHTLY) -k killed tests/integration/plan tests/integration/test_migration.py

soak: java $(VENV)/.installed-dev
	@$(BIN)/python tools/fetch_servers.py
	@PYTHONPATH=tests exec $(BIN)/python tools/soak.py --minutes $${MINUTES:-30}

check: $(VENV)/.installed-dev
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/mypy --strict src
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/python tools/check_docs.py

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	@tools/environment.sh $(VENV) constraints.txt -e '.[bench]'
	@touch $@

bench: java $(VENV)/.installed-bench $(PEERS)/.installed $(PEERS_KAFKA)/.installed
	@$(BIN)/python tools/fetch_servers.py
	@PYTHONPATH=tools $(BIN)/python benchmarks/run.py

docs: $(VENV)/.installed-dev
	@$(BIN)/python tools/write_reference.py
	@$(BIN)/python tools/check_docs.py

SITE := .venv-site
$(SITE)/.installed: docs/constraints-site.txt tools/environment.sh
	@tools/environment.sh $(SITE) docs/constraints-site.txt mkdocs-material 'mkdocstrings[python]' mike ruff
	@touch $@

.cache/site/node_modules/.installed: docs/site/package.json
	@mkdir -p .cache/site && cp docs/site/package.json .cache/site/
	@npm install --prefix .cache/site --silent --no-audit --no-fund
	@touch $@

site: $(SITE)/.installed .cache/site/node_modules/.installed
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict
	@echo "site: .cache/site/html/index.html"

RELEASE := .venv-release
$(RELEASE)/.installed: tools/constraints-release.txt tools/environment.sh
	@tools/environment.sh $(RELEASE) tools/constraints-release.txt build twine check-wheel-contents pip-audit uv \
	  ruamel.yaml
	@touch $@

# make release OPTIONS='--rehearse --skip-audit': for a version that isn't released yet, and without
# the service of pip-audit. OPTIONS='--advisories FOLDER' audits with a checkout of the database.
release: java $(RELEASE)/.installed $(VENV)/.installed-dev
	@$(RELEASE)/bin/python tools/release.py $(OPTIONS)

deploy-check: java $(VENV)/.installed
	@PYTHONPATH=tools $(BIN)/python tools/check_deploy.py

# The image's packages with their hashes.
docker-requirements: $(RELEASE)/.installed
	@$(RELEASE)/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  --python-platform linux --constraints constraints.txt --extra cli pyproject.toml --output-file .cache/requirements.txt
	@{ echo "# Written by 'make docker-requirements' from pyproject.toml and constraints.txt: packages with hashes."; \
	  cat .cache/requirements.txt; } > deploy/docker/requirements.txt

matrix: java
	@python3 tools/matrix.py

clean:
	@rm -rf build dist demo spark-warehouse metastore_db derby.log .cache .coverage htmlcov
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
