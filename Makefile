# Every target makes its own .venv; needs only python3 (3.11 or newer), pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test check lint types docs bench reproduce torch clean

demo: $(VENV)/.installed
	$(BIN)/dpensemble train --dataset adult --method dpbag --analysis worst-case --teachers 250 --partitions 50 \
	  --epsilon 1 --delta 1e-5 --seed 0 --baseline --overwrite --out demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(JOBS) -q

check: lint types docs test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/exact_accounting.py
	$(BIN)/python benchmarks/data_dependent_rdp.py
	$(BIN)/python benchmarks/exact_personalised.py
	$(BIN)/python benchmarks/personalised_labels.py
	$(BIN)/python benchmarks/darrm.py
	$(BIN)/python benchmarks/private_majority.py
	$(BIN)/python benchmarks/bagged_pate.py --tables
	$(BIN)/python benchmarks/optimal_vote.py
	$(BIN)/python benchmarks/adult_end_to_end.py

# Published tables beside ours; long. ARGS="--quick" for a part.
reproduce: $(VENV)/.installed
	$(BIN)/python reproductions/personalised_pate_table5.py $(ARGS)

# Neural teachers and DP-SGD, whose tests are skipped without it. Pinned: a range may take gigabytes for graphics cards.
torch: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet torch==2.13.0 opacus

clean:
	rm -rf $(VENV) build dist site demo .mypy_cache .ruff_cache .pytest_cache

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'dpensemble needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@
