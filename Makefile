# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs. `make docs`: the site, in site/.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint docs clean

demo: $(READY)
	$(BIN)/smoothcert demo --out demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Strictly: a broken link, or a public name without a place in the reference, is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# constraints.txt pins torch: without it pip might take another version, with gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt tests/networks.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r tests/networks.txt
	touch $(READY)

clean:
	rm -rf .venv demo site build dist src/*.egg-info
