PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NAMESPACE := $(VENV)/namespace/safetyrepro
DEMO := demo-report
ENVELOPE := envelope-demo-run

.PHONY: setup demo test lint bench clean sealed-example envelope-demo

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct gemma3-270m
	$(BIN)/safetyrepro suites sync
	$(BIN)/safetyrepro anchor run anchor_configs/anchors/truthfulqa-mc1-pocket.yaml anchor_configs/anchors/bbq-pocket.yaml --limit 6 --out $(DEMO)

test: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct gemma3-270m
	$(BIN)/safetyrepro suites sync
	$(BIN)/python -m pytest -n auto --dist loadfile

# The type checker sees the one namespace as an installed package has it; from the root it would find half of it.
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf $(NAMESPACE) && mkdir -p $(NAMESPACE)
	ln -s $(CURDIR)/safetyrepro/* $(addprefix $(CURDIR)/,adapters analysis anchor_configs crosspkg) $(NAMESPACE)
	cd $(VENV) && MYPYPATH=namespace bin/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p safetyrepro

# A seal is of one plan, so that an example made before another state of the code is made anew.
sealed-example: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct
	rm -rf sealed-example
	$(BIN)/safetyrepro envelope seal anchor_configs/envelope/example.yaml --out sealed-example
	$(BIN)/safetyrepro envelope run sealed-example
	$(BIN)/safetyrepro envelope verify sealed-example

# All 612 cells; ITEMS is how many items of each benchmark. Started again, it goes on where it was.
ITEMS := 4
envelope-demo: setup
	$(BIN)/safetyrepro models pull smollm2-135m-instruct gemma3-270m
	test -f $(ENVELOPE)/SEAL || $(BIN)/safetyrepro envelope seal anchor_configs/envelope/embedded.yaml --limit $(ITEMS) --out $(ENVELOPE)
	$(BIN)/safetyrepro envelope run $(ENVELOPE)
	$(BIN)/safetyrepro envelope verify $(ENVELOPE)
	$(BIN)/safetyrepro grid $(ENVELOPE) --out $(ENVELOPE)-grid

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf build dist *.egg-info $(DEMO) sealed-example $(ENVELOPE) $(ENVELOPE)-grid
