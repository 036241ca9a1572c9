# Every target makes and fills .venv by itself; nothing else has to be installed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CKPT ?= checkpoints/assign_add_p59/step_023100.safetensors
OUT ?= out/probe

.DEFAULT_GOAL := help
.PHONY: help install probe test check bench calibrate clean

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# torch is installed first and alone, with the pins, so that no other package's looser range is resolved instead.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,export]'
	@touch $(STAMP)

install: $(STAMP)  ## create .venv with everything in it

probe: $(STAMP)  ## the main job: sharing verdict on a shipped checkpoint (CKPT=... OUT=...)
	$(BIN)/mechint-arith probe --ckpt $(CKPT) --out $(OUT)

test: $(STAMP)  ## all tests
	$(BIN)/python -m pytest -n 2 --jaxtyping-packages=mechint_arith,tests.typechecked

check: $(STAMP)  ## format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory test

bench: $(STAMP)  ## speed, as ratios measured in one run
	$(BIN)/python -m tests.bench

calibrate: $(STAMP)  ## error rate of the verdict on planted controls
	$(BIN)/mechint-arith calibrate --out out/calibration

clean:  ## remove .venv and outputs
	rm -rf $(VENV) out
