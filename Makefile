# Two commands for a machine where nothing was installed by hand: `make train` and `make test`.
# Everything here is a thin wrapper: CMake does the work, and can be used without this file.
#
#   make                                  install what is missing, configure, build into build/
#   make train [DATA=file] [ARGS=...]     train on the text; ARGS go to `sluice train`
#   make test [SANITIZERS=1]              all tests but the long ones; 1: and the sanitizers' set
#   make stress                           the long tests
#   make asan | make tsan                 the tests under AddressSanitizer + UBSan, ThreadSanitizer
#   make bench [ARGS=...]                 benchmarks, minutes in all; ARGS: only that one
#   make docs                             the headers' comments as HTML, in build/docs
#   make deps                             only what must be there before CMake runs
#   make clean                            remove the build folders, keep .deps
#
#   TORCH=1  with modules of LibTorch: PyTorch for the CPU is installed into .deps/torch, once
#   JOBS=n  BUILD=folder  CMAKE_ARGS=...  CAF_PREFIX=dir  CAF_SOURCE=path (scripts/build_caf.sh)

BUILD ?= build
JOBS ?= $(shell nproc)
TEST_JOBS ?= 1# tests that measure time must not disturb each other

# By the environment, not by -G: a folder that was configured otherwise stays as it is.
export CMAKE_GENERATOR ?= $(if $(shell command -v ninja 2>/dev/null),Ninja,Unix Makefiles)
configure = cmake -S . $(if $(CAF_PREFIX),-DCMAKE_PREFIX_PATH="$(abspath $(CAF_PREFIX))") $(CMAKE_ARGS)
with_torch = $(if $(TORCH),-DSLUICE_TORCH=ON -DSLUICE_TORCH_ROOT= \
  -DPython3_EXECUTABLE="$(abspath .deps/torch/bin/python)")
compile = cmake --build $(1) -j $(JOBS)
ctest = ctest --test-dir $(1) --output-on-failure --no-tests=error -j $(TEST_JOBS)

.PHONY: build train test stress asan tsan sanitized bench docs deps clean
.NOTPARALLEL:

build: deps
	@$(configure) -B $(BUILD) -DCMAKE_BUILD_TYPE=Release $(with_torch)
	@$(call compile,$(BUILD))

train: build
	@$(BUILD)/sluice train $${DATA:+--data "$$DATA"} $(ARGS)

test: build
	@$(call ctest,$(BUILD)) -LE stress
ifeq ($(SANITIZERS),1)
	@$(MAKE) --no-print-directory sanitized
endif

stress: build
	@$(call ctest,$(BUILD)) -L stress

bench: build
ifdef ARGS
	@$(torch_first) $(BUILD)/sluice bench $(ARGS)
else
	@set -e; for each in overhead step scale memory span transfer jitter; do \
	  echo "--- $$each"; $(torch_first) $(BUILD)/sluice bench $$each; done
	@if [ -x $(BUILD)/torch_overhead ]; then echo "--- LibTorch"; $(BUILD)/torch_overhead; fi
endif
torch_first = $(if $(TORCH),PATH="$(abspath .deps/torch/bin):$$PATH")

# --- sanitizers ------------------------------------------------------------------------------
# Little optimisation, line numbers only: that halves the time to compile.
sanitize = -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
  -DSLUICE_SANITIZE=

.PHONY: configure-asan configure-tsan
configure-asan: deps
	@$(configure) -B build-asan $(sanitize)address,undefined
configure-tsan: deps
	@SANITIZE=thread JOBS=$(JOBS) scripts/build_caf.sh .deps/caf-tsan
	@$(configure) -B build-tsan $(sanitize)thread

asan: configure-asan
	@$(call compile,build-asan)
	@$(call ctest,build-asan) -LE stress

tsan: configure-tsan
	@$(call compile,build-tsan)
	@$(call ctest,build-tsan) -LE stress

# The set that CI runs under both: the tests marked SANITIZED, nothing else is built.
sanitized: configure-asan configure-tsan
	@echo "--- AddressSanitizer and UBSan: the tests marked SANITIZED"
	@$(call compile,build-asan) --target sanitized_tests
	@$(call ctest,build-asan) -L sanitized
	@echo "--- ThreadSanitizer: the tests marked SANITIZED"
	@$(call compile,build-tsan) --target sanitized_tests
	@$(call ctest,build-tsan) -L sanitized
# ---------------------------------------------------------------------------------------------

docs:
	@scripts/install_deps.sh doxygen
	@mkdir -p $(BUILD)/docs
	@(cat docs/Doxyfile; echo "OUTPUT_DIRECTORY=$(BUILD)/docs") | doxygen -
	@echo "docs: $(BUILD)/docs/html/index.html"

deps:
	@scripts/install_deps.sh $(if $(TORCH),python3-venv)
	@JOBS=$(JOBS) scripts/build_caf.sh .deps/caf
	@$(if $(TORCH),scripts/install_torch.sh .deps/torch)

clean:
	rm -rf $(BUILD) build-asan build-tsan
