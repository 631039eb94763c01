# make play      builds everything and serves the playground on http://localhost:8017
# make check     the gate: about 20 minutes on 2 cores; on Debian it installs what it needs
# make accept    everything, once an issue is done
# make site      the static site in dist/
# make fuzz      every fuzz test for FUZZTIME (30s)
# make soak      a million steps: memory, drift, a hundred models loaded and left in a browser
# make release   binaries for five systems and the site archive in build/release
# make cover     how much of each package the tests run through
# make bench     benchmarks of PKG and, with OP=name, of that kernel after its check
# make fmt       formats the Go files

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO ?= go
GOFUMPT := .tools/gofumpt-v0.12.0
STATICCHECK := .tools/staticcheck-v0.8.2

# The steps of the gate, in order. A step is a target of this file.
CHECK_STEPS := deps tree-mark fmt-check tidy-check vet lint builds site-fast test test-window race test-browser test-web tree-same
ACCEPT_STEPS := check site test-dawn test-long verify-zoo eval-zoo test-page fuzz soak-short release-same

# Native kernel tests run on a Vulkan driver that computes on the CPU, which must be named.
LAVAPIPE := $(firstword $(wildcard /usr/share/vulkan/icd.d/lvp_icd.$(shell uname -m).json /usr/share/vulkan/icd.d/lvp_icd*.json))
SWIFTSHADER := $(firstword $(wildcard /usr/lib/chromium/vk_swiftshader_icd.json /usr/lib/chromium-browser/vk_swiftshader_icd.json /opt/google/chrome/vk_swiftshader_icd.json))
ifdef LAVAPIPE
export VK_ICD_FILENAMES ?= $(LAVAPIPE)
endif

# Build output is no package of ours, whatever lies there.
packages = $(GO) list -e ./... | grep -v -E '^shellgame/(build|dist|bin)(/|$$)'
with_tests = $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
JS := GOOS=js GOARCH=wasm
NODE_TESTS = $(or $(wildcard web/test/*.test.mjs web/test/*.test.js),$(error web/test has no tests))

# What also runs in the browser, and what the race detector looks at: not model/construct, whose
# own reference is one goroutine that computes for minutes under it.
BROWSER_PKGS ?= ./shaders/... ./webgpu/... ./model/... ./task/... ./wasm/...
RACE_PKGS ?= ./task/... ./model ./model/check ./model/safetensors ./model/tokenizer/... ./model/verify ./webgpu/...

.PHONY: help
help:
	@sed -n 's/^# make/make/p' Makefile

## Products

.PHONY: play
play: site-fast
	CGO_ENABLED=0 $(GO) build -trimpath -tags site -o bin/shellgame ./cmd/shellgame
	exec bin/shellgame serve $(SERVE)

.PHONY: site site-fast build/shellgame.wasm build/tokens.wasm
site: SITE_FLAGS =
site-fast: SITE_FLAGS = -fast
site site-fast: build/shellgame.wasm build/tokens.wasm
	$(GO) run ./internal/sitebuild $(SITE_FLAGS) -out dist -cache build/compressed web build/shellgame.wasm build/tokens.wasm "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js"

build/shellgame.wasm:
	$(GO) run ./internal/lean -goroot "$$($(GO) env GOROOT)" -out build/lean
	$(JS) $(GO) build -overlay build/lean/overlay.json -trimpath -ldflags "-s -w" -o $@ ./wasm

# Tokenizers of published checkpoints, fetched only with one.
build/tokens.wasm:
	$(JS) $(GO) build -trimpath -ldflags "-s -w" -o $@ ./wasm/tokens

# The command with the site inside for each system, the site for a static host, and their checksums,
# in build/release; the one for this system is run from an empty folder.
.PHONY: release release-same
release: site
	$(GO) run ./internal/release -try

# The same commit gives the same bytes.
release-same: release
	rm -rf build/compressed build/release-before
	mv build/release build/release-before
	$(MAKE) release
	diff build/release-before/SHA256SUMS build/release/SHA256SUMS

.PHONY: shellgame
shellgame:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/shellgame ./cmd/shellgame

# The command with the window, which takes cgo and has no GPU of its own.
.PHONY: bin/shellgame-window
bin/shellgame-window:
	CGO_ENABLED=1 $(GO) build -trimpath -tags window -o $@ ./cmd/shellgame

.PHONY: bin/jsrun
bin/jsrun:
	$(GO) build -o $@ ./internal/jsrun

.tools/gofumpt-%:
	GOBIN=$(CURDIR)/.tools $(GO) install mvdan.cc/gofumpt@$*
	mv .tools/gofumpt $@

.tools/staticcheck-%:
	GOBIN=$(CURDIR)/.tools $(GO) install honnef.co/go/tools/cmd/staticcheck@$*
	mv .tools/staticcheck $@

## The gate

.PHONY: check
check:
	@scripts/steps.sh check $(CHECK_STEPS)

.PHONY: deps
deps:
	@scripts/deps.sh

.PHONY: tree-mark tree-same
tree-mark:
	@scripts/tree.sh mark
tree-same:
	@scripts/tree.sh same

GO_FILES = git ls-files -z --cached --others --exclude-standard -- '*.go'

.PHONY: fmt fmt-check
fmt: $(GOFUMPT)
	$(GO_FILES) | xargs -0 $(GOFUMPT) -w
fmt-check: $(GOFUMPT)
	@bad=$$($(GO_FILES) | xargs -0 $(GOFUMPT) -l); \
	if [[ -n $$bad ]]; then printf 'not formatted, run make fmt:\n%s\n' "$$bad"; exit 1; fi

.PHONY: tidy-check
tidy-check:
	$(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: vet
vet:
	CGO_ENABLED=0 $(GO) vet $$(CGO_ENABLED=0 $(packages))
	CGO_ENABLED=1 $(GO) vet -tags window $$($(packages))
	$(JS) $(GO) vet $$($(JS) $(packages))

.PHONY: lint
lint: $(STATICCHECK)
	CGO_ENABLED=1 $(STATICCHECK) $$($(packages))
	CGO_ENABLED=1 $(STATICCHECK) -tags window ./cmd/shellgame ./stage
	$(JS) $(STATICCHECK) $$($(JS) $(packages))

.PHONY: builds
builds:
	CGO_ENABLED=0 GOOS=linux $(GO) build -o /dev/null ./cmd/shellgame
	CGO_ENABLED=1 $(GO) build -o /dev/null ./cmd/shellgame
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/shellgame
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/shellgame
	$(JS) $(GO) build -o /dev/null ./cmd/shellgame
	$(JS) $(GO) build -o /dev/null ./wasm
	$(JS) $(GO) build -o /dev/null ./wasm/tokens

.PHONY: test
test:
	REQUIRE_DEVICES=vulkan,browser,node CGO_ENABLED=0 $(GO) test -shuffle=on -timeout 25m $(TESTFLAGS) $$(CGO_ENABLED=0 $(packages))

# The window needs cgo and a display. After its tests the command must show one until it is
# interrupted.
.PHONY: test-window
test-window: bin/shellgame-window
	CGO_ENABLED=1 xvfb-run -a $(GO) test -tags window -shuffle=on $(TESTFLAGS) ./stage/...
	out=$$(xvfb-run -a bash -c 'timeout -s INT -k 10 6 bin/shellgame-window window --device cpu --model web/zoo/st-constructed; echo "exit code $$?"' 2>&1) || true; \
	if [[ $$out != *"exit code 124"* ]]; then echo "test-window: got the following, want a window that stays until an interrupt (exit code 124): $$out"; exit 1; fi

# The engine links the stage, which with cgo needs a display and leaves no room for the GPU.
.PHONY: race
race:
	REQUIRE_DEVICES=vulkan CGO_ENABLED=1 $(GO) test -race -short -shuffle=on -timeout 15m $(TESTFLAGS) $$($(with_tests) $(RACE_PKGS))
	CGO_ENABLED=1 xvfb-run -a $(GO) test -race -short -tags window -shuffle=on -timeout 15m $(TESTFLAGS) ./wasm/...

.PHONY: test-browser
test-browser: bin/jsrun
	REQUIRE_DEVICES=browser $(JS) $(GO) test -shuffle=on -timeout 15m -exec "$(CURDIR)/bin/jsrun" $(TESTFLAGS) $$($(JS) $(with_tests) $(BROWSER_PKGS))

.PHONY: test-web
test-web:
	node --test $(NODE_TESTS)

## Beyond the gate

.PHONY: accept
accept:
	@scripts/steps.sh accept $(ACCEPT_STEPS)

# The browser's kernels under Node and Dawn: on a machine with a GPU, Chrome's WebGPU on it
# (VK_ICD_FILENAMES= names no driver); else on SwiftShader, since Dawn refuses old lavapipes.
DAWN_DRIVER ?= $(SWIFTSHADER)
NODE_WEBGPU ?= $(CURDIR)/build/node/node_modules/webgpu
export NODE_WEBGPU

.PHONY: test-dawn
test-dawn: | $(NODE_WEBGPU)
	REQUIRE_DEVICES=browser VK_ICD_FILENAMES=$(DAWN_DRIVER) $(JS) $(GO) test -timeout 30m -exec "$(CURDIR)/scripts/node-dawn.mjs" $(TESTFLAGS) ./shaders/... ./webgpu/...

$(CURDIR)/build/node/node_modules/webgpu:
	npm install --no-audit --no-fund --prefix build/node webgpu@0.6.2

# What the gate leaves out of the kernels' tests: every grid of more than 65,535 workgroups,
# 65,536 reflections, and in the browser some windows, shapes and variants; and of the dependencies'
# defects one that takes a build with cgo.
LONG_TESTS := -run 'Grids|Numbers|Compile|^Test(Attention|MatVecStep)$$' -count=1 -timeout 40m

.PHONY: test-long
test-long: bin/jsrun
	SHELLGAME_LONG=1 REQUIRE_DEVICES=vulkan CGO_ENABLED=0 $(GO) test $(LONG_TESTS) ./shaders
	SHELLGAME_LONG=1 REQUIRE_DEVICES=browser $(JS) $(GO) test -exec "$(CURDIR)/bin/jsrun" $(LONG_TESTS) ./shaders
	SHELLGAME_LONG=1 CGO_ENABLED=0 $(GO) test -count=1 ./internal/upstream

# The pictures in docs/screens.
.PHONY: screens
screens: site-fast
	REQUIRE_DEVICES=browser CGO_ENABLED=0 $(GO) test -tags screens ./e2e -run '^TestScreens$$' -count=1 -timeout 30m

# The page's tests with all that the gate leaves out.
.PHONY: test-page
test-page: site-fast
	E2E=whole REQUIRE_DEVICES=browser CGO_ENABLED=0 $(GO) test ./e2e -count=1 -timeout 40m

# Each checkpoint that has a golden file, on each device. GOLDEN may name the untrimmed files.
GOLDEN ?= testdata/golden/zoo
VERIFY_DEVICES ?= cpu vulkan browser

.PHONY: verify-zoo
verify-zoo: site-fast
	CGO_ENABLED=0 $(GO) build -trimpath -tags site -o bin/shellgame ./cmd/shellgame
	n=0; for dir in web/zoo/*/; do \
	  name=$$(basename $$dir); golden=$(GOLDEN)/$$name.safetensors; \
	  [[ -e $$golden ]] || continue; \
	  for device in $(VERIFY_DEVICES); do bin/shellgame verify --device $$device --golden $$golden $$dir; n=$$((n + 1)); done; \
	done; \
	if ((n == 0)); then echo "verify-zoo: $(GOLDEN) has no golden file of a checkpoint in web/zoo"; exit 1; fi

# Every checkpoint's accuracy beside its eval.json, at every level on Vulkan and at 4, 8 and 16 on
# the CPU and in Chromium; the constructed models must be right throughout.
.PHONY: eval-zoo
eval-zoo: site-fast
	for device in $(VERIFY_DEVICES); do $(GO) run ./internal/accept -device $$device; done

# Programs that do not end, and what must not grow meanwhile: SOAK times 100,000 steps on the CPU,
# 10,000 on Vulkan, 5,120 of a hybrid that begins anew every 1,024 on each; then SOAK times 10 models
# loaded and left in Chromium. On Vulkan the model is a trained one: lavapipe (Mesa 22.3) may compile
# st-constructed's small kernels anew at each dispatch, and loses 266 KiB each time.
SOAK ?= 10
soak_run = CGO_ENABLED=0 $(GO) run ./internal/soak

.PHONY: soak soak-short
soak: site-fast
	$(soak_run) -steps $$((100000 * $(SOAK)))
	$(soak_run) -device vulkan -model web/zoo/st-gdn-neg -steps $$((10000 * $(SOAK)))
	for device in cpu vulkan; do $(soak_run) -device $$device -model web/zoo/sbr-hybrid-neg -steps $$((5120 * $(SOAK))) -checks 5; done
	SOAK=$(SOAK) REQUIRE_DEVICES=browser CGO_ENABLED=0 $(GO) test ./e2e -count=1 -timeout 60m -v -run '^TestLoadCycles$$'

soak-short:
	$(MAKE) soak SOAK=1

# What somebody else may send: Go's own fuzz tests, then those of the page's JavaScript. FUZZTIME is
# for each of them.
FUZZTIME ?= 30s
FASTCHECK := $(CURDIR)/build/node/node_modules/fast-check
export FASTCHECK

$(FASTCHECK):
	npm install --no-audit --no-fund --prefix build/node fast-check@4.11.0

.PHONY: fuzz
fuzz: | $(FASTCHECK)
	n=0; for pkg in $$(CGO_ENABLED=0 $(with_tests) ./shaders/... ./webgpu/... ./model/... ./task/... ./wasm/... ./cmd/...); do \
	  for f in $$(CGO_ENABLED=0 $(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "=== fuzz: $$pkg $$f"; n=$$((n + 1)); \
	    CGO_ENABLED=0 $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg; \
	  done; \
	done; \
	if ((n == 0)); then echo "fuzz: found no fuzz test"; exit 1; fi
	node scripts/fuzz-web.mjs --time $(FUZZTIME)

# How much of each package all native tests together run through, and of the page's JavaScript those
# under Node; what only runs in a browser (e2e) is not counted.
.PHONY: cover
cover:
	mkdir -p build
	REQUIRE_DEVICES=vulkan CGO_ENABLED=0 $(GO) test -short -timeout 30m -coverpkg=./... -coverprofile=build/cover.out $(TESTFLAGS) $$(CGO_ENABLED=0 $(with_tests) ./... | grep -v -E '/(e2e|build|dist|bin)(/|$$)') >build/cover.txt || { cat build/cover.txt; exit 1; }
	awk -f scripts/cover.awk build/cover.out
	node --test --experimental-test-coverage $(NODE_TESTS) | sed -n '/start of coverage/,/end of coverage/p'

PKG ?= ./shaders/... ./webgpu/... ./model/... ./task/...

.PHONY: bench
bench: shellgame
ifdef OP
	bin/shellgame bench --kernel $(OP) $(BENCHFLAGS)
else
	$(GO) test -run '^$$' -bench . -benchmem $$($(with_tests) $(PKG))
	bin/shellgame bench $(BENCHFLAGS)
endif

.PHONY: clean
clean:
	rm -rf bin dist build/shellgame.wasm build/tokens.wasm build/compressed build/lean build/release build/release-before build/tree
