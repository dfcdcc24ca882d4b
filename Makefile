PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NAMESPACE := $(VENV)/namespace/safetyrepro
DEMO := demo-report

.PHONY: setup demo test lint bench clean

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct gemma3-270m
	$(BIN)/safetyrepro suites sync
	$(BIN)/safetyrepro anchor run anchor_configs/anchors/truthfulqa-mc1-pocket.yaml anchor_configs/anchors/bbq-pocket.yaml --limit 8 --out $(DEMO)

test: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct gemma3-270m
	$(BIN)/safetyrepro suites sync
	$(BIN)/python -m pytest

# The type checker sees the one namespace as an installed package has it; from the root it would find half of it.
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf $(NAMESPACE) && mkdir -p $(NAMESPACE)
	ln -s $(CURDIR)/safetyrepro/* $(addprefix $(CURDIR)/,adapters analysis anchor_configs crosspkg) $(NAMESPACE)
	cd $(VENV) && MYPYPATH=namespace bin/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p safetyrepro

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf build dist *.egg-info $(DEMO)
