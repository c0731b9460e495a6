# SPDX-License-Identifier: Apache-2.0
# Short names for what people do here; CMake (CMakePresets.json) does the building.

PREFIX ?= /usr/local
BUILD := build/release

.PHONY: build demo test check-full format lint install setup clean

build: $(BUILD)/build.ninja
	cmake --build $(BUILD)

$(BUILD)/build.ninja: CMakeLists.txt CMakePresets.json
	cmake --preset release $(if $(filter-out /usr/local,$(PREFIX)),-DCMAKE_INSTALL_PREFIX=$(PREFIX)) >/dev/null

setup:
	scripts/setup.sh

demo: setup
	$(MAKE) --no-print-directory build
	$(BUILD)/mlxcel generate -p "The old captain" -n 200 -t 0.7 --top-p 0.9 --repetition-penalty 1.1 --seed 1

test: setup
	$(MAKE) --no-print-directory build
	tests/run $(BUILD)

check-full: setup
	scripts/check-full.sh $(STEPS)

format:
	git ls-files '*.c' '*.h' | xargs clang-format-14 -i

lint:
	scripts/lint.sh

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build
