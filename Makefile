PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell git ls-files -co --exclude-standard 'safetyrepro/*' 'adapters/*' 'analysis/*' 'crosspkg/*' 'anchor_configs/*')
LISTING := $(shell printf '%s\n' $(SOURCES) | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.installed-$(LISTING)
DEMO := demo-report

.PHONY: setup demo test lint bench clean

setup: $(STAMP)

# Editable in strict mode, so that type checkers follow the one namespace; new files need a new link tree,
# hence the stamp over the list of files.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --config-settings editable_mode=strict
	rm -f $(VENV)/.installed-*
	touch $@

demo: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct gemma3-270m
	$(BIN)/safetyrepro suites sync
	$(BIN)/safetyrepro anchor run anchor_configs/anchors/truthfulqa-mc1-pocket.yaml anchor_configs/anchors/bbq-pocket.yaml --out $(DEMO)

test: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct gemma3-270m
	$(BIN)/safetyrepro suites sync
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p safetyrepro

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf build dist *.egg-info $(DEMO)
