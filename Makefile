# Every target makes its own .venv; needs only python3 (3.11 or newer), pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# What builds the documentation.
SITE ?= mkdocs
# Without compiled files, which an empty value allows, every process of a test compiles the library again.
export PYTHONDONTWRITEBYTECODE :=
OLDEST := .venv-oldest
# The oldest dependencies have no wheels for newer Pythons.
OLDEST_PYTHON ?= $(shell command -v python3.11 || echo $(PYTHON))

.PHONY: demo installed test test-fast test-nightly test-all durations coverage check lint manifest hooks types docs wheel-check dist changelog changelog-draft release-check oldest bench arena reproduce torch install-clusters test-clusters clusters clean

demo: $(VENV)/.installed
	$(BIN)/dpensemble train --dataset adult --epsilon 1 --delta 1e-5 --seed 0 --baseline --overwrite --out demo

# The library with what its tests need. Other targets do this themselves.
installed: $(VENV)/.installed-dev

# A process takes tests from the other one when it has none left, so that most files stay in one process.
SPREAD := -n $(JOBS) --dist worksteal

# Without the tests that run at night.
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SPREAD) -q -m "not nightly"

# Without slow tests and the examples in docstrings: less than a minute on two cores.
test-fast: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SPREAD) -q tests -m "not slow" --durations=10

# Only the tests that run at night, which make test leaves out.
test-nightly: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SPREAD) -q -m nightly

# Every test; run this when accounting, laws or releases changed.
test-all: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SPREAD) -q

# Measures tests, which decides which of them are slow or run at night: make durations ARGS=tests/server
durations: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SPREAD) -q --write-durations $(ARGS)

# What runs in other processes (the command line in some tests, workers of joblib) is not seen.
coverage: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(SPREAD) -q --cov --cov-report=term $(ARGS)

check: lint types docs test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/prose.py --changed
	$(BIN)/python scripts/release.py fragments

# After a change of a constructor or its docstring; a test fails when the file is out of date.
manifest: $(VENV)/.installed-dev
	$(BIN)/python scripts/write_manifest.py

# Before every commit, what lint runs: .pre-commit-config.yaml.
hooks: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet pre-commit
	$(BIN)/pre-commit install

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# Another generator that reads mkdocs.yml: make docs SITE=zensical, once it is installed.
docs: $(VENV)/.installed-dev
	$(BIN)/python scripts/site_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/$(SITE) build --strict $(if $(filter mkdocs,$(SITE)),--quiet)

# A wheel, installed in a fresh environment outside the tree and used there.
wheel-check: $(VENV)/bin/python
	$(BIN)/python scripts/check_wheel.py

# The section that the files in changelog.d become, and the same written to CHANGELOG.md. See RELEASING.md.
changelog-draft: $(VENV)/.installed-dev
	$(BIN)/python scripts/release.py changelog --draft

changelog: $(VENV)/.installed-dev
	$(BIN)/python scripts/release.py changelog

# What must hold before a version is tagged.
release-check: $(VENV)/.installed-dev
	$(BIN)/python scripts/release.py check

# The sdist, the wheel, what is inside (SBOM) and checksums in dist, each tried in fresh environments of PYTHONS.
PYTHONS ?= $(PYTHON)
dist: $(VENV)/bin/python
	$(BIN)/python scripts/build_release.py dist $(PYTHONS)

# The lower bounds in pyproject.toml: the fast tests with every dependency at its oldest. Old releases beside new
# ones of what they depend on may announce what will be removed one day; that is no error here.
oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest $(SPREAD) -q tests -m "not slow" -W default::DeprecationWarning

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/exact_accounting.py
	$(BIN)/python benchmarks/data_dependent_rdp.py
	$(BIN)/python benchmarks/exact_personalised.py
	$(BIN)/python benchmarks/personalised_labels.py
	$(BIN)/python benchmarks/darrm.py
	$(BIN)/python benchmarks/private_majority.py
	$(BIN)/python benchmarks/bagged_pate.py --tables
	$(BIN)/python benchmarks/optimal_vote.py
	$(BIN)/python benchmarks/aggregator.py
	$(BIN)/python benchmarks/many_rows.py
	$(BIN)/python benchmarks/many_rows.py --teachers 100
	$(BIN)/python benchmarks/commands.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/failures_after_charge --runs 500
	$(BIN)/python benchmarks/adult_end_to_end.py

# Beside other libraries, which are installed in an environment of their own; hours, and it resumes.
arena: torch
	$(BIN)/python benchmarks/arena $(ARGS)

# Published tables beside ours: minutes, or ARGS="all" for hours. It resumes.
ARGS_REPRODUCE := $(if $(ARGS),$(ARGS),all --quick)
reproduce: torch
	$(BIN)/python -m reproductions $(ARGS_REPRODUCE)

# Neural teachers and DP-SGD, whose tests are skipped without it. Pinned: a range may take gigabytes for graphics cards.
torch: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet torch==2.13.0 opacus

# Dask, Spark and database drivers. It only installs, so that a failure here is not one of the library.
install-clusters: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[dask,spark]' 'pyspark[connect]' \
		duckdb polars adbc-driver-sqlite adbc-driver-postgresql

# Teachers, sums and predictions on clusters of several local processes, and private tables in databases. Tests are
# skipped without Dask, without Spark and Java, or without PostgreSQL. It only tests.
test-clusters: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q tests/clusters tests/conformance/test_frames.py tests/conformance/test_routes.py \
		tests/conformance/test_route_sensitivities.py tests/golden/test_messages_of_rows.py tests/datasets/test_arrow.py \
		tests/datasets/test_frames.py tests/teachers/test_ensemble.py \
		tests/exports/test_exports.py tests/workflow/test_predict.py tests/workflow/test_streams.py \
		tests/workflow/test_table_files.py tests/cli/test_life_table.py

clusters: install-clusters
	$(MAKE) test-clusters

clean:
	rm -rf $(VENV) $(OLDEST) build dist site docs/reference docs/notebooks demo reproduced .mypy_cache .ruff_cache .pytest_cache

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'dpensemble needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(OLDEST)/.installed: pyproject.toml scripts/oldest_constraints.py
	$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python scripts/oldest_constraints.py pld > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt --editable '.[dev]'
	touch $@
