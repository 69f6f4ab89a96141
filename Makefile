# Two commands: `make demo` shows what the project does, `make test` checks all of it.
# Each sets up .venv by itself, once; a changed pyproject.toml, constraint or native file sets it up again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find native -type f)
C_FILES := $(filter %.h %.c %.cc, $(NATIVE)) $(wildcard src/ftbnn/exchange/c/*.h)
READY := $(VENV)/.ready

.PHONY: help demo bench bench-arm test test-arm test-systems test-web web lint types unit sanitize wheels docs format setup clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/'

demo: $(READY)  ## show what the project does
	@echo "== training FTBNN-18 (width 16) on the embedded digits; the run goes to runs/demo"
	@rm -rf runs/demo
	@$(BIN)/ftbnn train ftbnn18 --data digits --out runs/demo
	@echo "== the best epoch, evaluated from its checkpoint"
	@$(BIN)/ftbnn eval runs/demo
	@echo "== packed into one file, run natively and compared"
	@$(BIN)/ftbnn export runs/demo -o runs/demo/digits.ftbnn
	@echo "== the file, evaluated by the native engine"
	@$(BIN)/ftbnn eval runs/demo/digits.ftbnn --data digits
	@echo "== where its time goes, one thread"
	@$(BIN)/ftbnn inspect runs/demo/digits.ftbnn --profile
	@echo "== its speed beside PyTorch, one thread"
	@$(BIN)/ftbnn bench net runs/demo --peers torch --batch 1,64 --rounds 3

CPU = $(shell $(BIN)/python -c 'import re; from ftbnn.machine import capabilities; \
  print(re.sub("[^a-z0-9]+", "-", capabilities()["cpu"].lower()).strip("-"))')
REPORT = benchmarks/reports/$(shell date +%F)-$(CPU)
ISA = $(shell $(BIN)/python -c 'from ftbnn.bench.ours import isas_of; print(*isas_of(()))')
NETS := ftbnn18 ftbnn-d18-g1-90m ftbnn-d34-g5-135m
NET = $(BIN)/ftbnn bench net --threads 1,2 --peers onnxruntime,openvino

bench: $(READY)  ## measure the engine beside others (minutes, wants a quiet machine); writes reports
	@$(BIN)/ftbnn bench loops --report $(REPORT)
	@$(BIN)/ftbnn bench conv --report $(REPORT)
	@$(NET) $(NETS) --isa $(ISA) --report $(REPORT)
	@$(BIN)/ftbnn bench net --paper --isa $(ISA) --report $(REPORT)
	@$(NET) $(NETS) --isa $(ISA) --stem-bits 8 --input uint8 --report $(REPORT)-uint8

test: lint types unit  ## lint, types and all tests

lint: $(READY)  ## ruff and clang-format
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run --Werror $(C_FILES)

types: $(READY)  ## mypy, strict
	@echo "== types"
	@$(BIN)/mypy

unit: $(READY)  ## all tests
	@echo "== tests"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile

sanitize: $(READY)  ## damaged files, read and run under AddressSanitizer and UndefinedBehaviorSanitizer
	@echo "== sanitize"
	@$(BIN)/cmake -S . -B build/sanitize -DFTBNN_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo > /dev/null
	@$(BIN)/cmake --build build/sanitize --parallel 2 > /dev/null
	@$(BIN)/python tests/damage_files.py build/sanitize
	@for isa in $$($(BIN)/python -c 'from ftbnn import _native; print(*_native.capabilities()["isas"])'); do \
	  echo "-- FTBNN_ISA=$$isa"; FTBNN_ISA=$$isa build/sanitize/damage build/sanitize/*.ftbnn || exit 1; done

ARM_TESTS := $(addprefix tests/property/, test_bconv.py test_binary_conv.py test_conv.py test_conv_grad.py \
  test_real_conv_rows.py test_rows.py test_stem.py) \
  $(addprefix tests/unit/test_native.py::, test_the_same_of_arm test_cores_of_arm_have_names \
    test_every_isa_but_portable_has_a_roof_for_both_kinds_of_kernels)
OPERATOR_TESTS := $(addprefix tests/property/, test_native_block.py test_native_norm.py test_native_pool.py \
  test_real_conv.py)
# PyTorch stays here, what it calls runs there.
ELSEWHERE = FTBNN_ELSEWHERE="build/arm/python tests/arm/engine_server.py" PYTHONPATH=tests/arm OMP_NUM_THREADS=1 \
  $(BIN)/pytest -q -p elsewhere -p no:cacheprovider

test-arm: $(READY)  ## other architectures under qemu: all kernels, the engine and training on aarch64, networks on armv7 and riscv64
	@tests/arm/prepare.sh $(VENV)
	@echo "== networks: the same bits everywhere"
	@$(BIN)/python tests/arm/compare.py
	@echo "== instructions an image on aarch64, in millions"
	@$(BIN)/python tests/arm/instructions.py
	@for cpu in cortex-a53 cortex-a76 max; do \
	  echo "== kernels on $$cpu"; \
	  CPU=$$cpu build/arm/python -m pytest -q -p no:cacheprovider $(ARM_TESTS) || exit 1; \
	  echo "== the engine on $$cpu"; \
	  CPU=$$cpu $(ELSEWHERE) tests/unit/runtime || exit 1; \
	done
	@echo "== training's operators on max, which has the rows of both others"
	@CPU=max $(ELSEWHERE) $(OPERATOR_TESTS)

test-systems: $(READY)  ## other systems: the C library for Windows, run by Wine, and for macOS, only compiled
	@echo "== other systems"
	@$(BIN)/python tests/arm/systems.py

bench-arm: $(READY)  ## count the instructions of an image on aarch64; writes a report
	@tests/arm/prepare.sh $(VENV) library
	@$(BIN)/python tests/arm/instructions.py --report

web: $(READY)  ## the page and the package for JavaScript: WebAssembly by Debian's clang-16, ONNX Runtime Web by npm
	@echo "== web"
	@$(BIN)/python web/build.py

# Real photos, where they are: make test-web EXPECT="--imagenette FILE.npz --mnist DIR"
test-web: web  ## the package in Node, the page in headless Chromium
	@echo "== web tests"
	@$(BIN)/python web/tests/tools.py
	@rm -rf build/expected build/site
	@$(BIN)/python web/tests/expect.py build/expected $(EXPECT)
	@$(BIN)/ftbnn demo --out build/site
	@web/node_modules/.bin/tsc --strict --noEmit --target es2022 --lib es2022,dom --module nodenext web/package/*.d.ts
	@EXPECTED=$(CURDIR)/build/expected SITE=$(CURDIR)/build/site node --test --test-concurrency=1 web/tests/*.test.js

wheels: web  ## the sdist and manylinux wheels, tried in clean environments (Debian, network, 20 minutes), into dist
	@test -x build/wheels/tools/bin/python || $(BIN)/python -m venv build/wheels/tools
	@build/wheels/tools/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -r wheels/requirements.txt
	@build/wheels/tools/bin/python wheels/make.py

docs: $(READY)  ## the documentation as a site, into build/site
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r docs/site/requirements.txt
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs/site -d build/docs . build/site
	@echo "open build/site/index.html"

format: $(READY)  ## rewrite the sources in the project's style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(C_FILES)

setup: $(READY)  ## create .venv and install everything into it

$(READY): pyproject.toml constraints.txt CMakeLists.txt $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "ftbnn needs Python 3.10 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 2; }
	@test -x $(BIN)/python || { echo "== creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "== installing ftbnn with its tools into $(VENV) (the first time takes a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -C cmake.define.FTBNN_TESTS=ON -C cmake.define.FTBNN_BENCH=ON -e '.[train,experiments,exchange,dev]'
	@touch $@

clean:  ## remove what the build made (.venv, build, caches)
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
