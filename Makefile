# Everything a developer runs. `make` builds; `make help` lists the targets.

GO          ?= go
BIN         := bin/lowertrace
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Packages with goroutines of their own, for the race detector.
RACE        := ./internal/trace/... ./internal/ir/interp/... ./internal/driver/... ./internal/gpu/...
# What is built besides this machine's binary: system/architecture.
CROSS       := linux/arm64 darwin/arm64 windows/amd64
SHELL       := /bin/bash

# The product needs no C compiler; the race detector alone does.
export CGO_ENABLED = 0

.PHONY: build
build: ## build bin/lowertrace
	$(GO) build -trimpath -o $(BIN) ./cmd/lowertrace

.PHONY: run
run: build ## lower the built-in kernel, with diffs in the terminal and a report
	$(BIN) run --mode both

.PHONY: test
test: ## unit, golden and script tests, and every fuzz test's seeds
	$(GO) test ./...

.PHONY: race
race: ## the packages with goroutines under the race detector, in short (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short $$($(GO) list -e -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' $(RACE) 2>/dev/null)

.PHONY: lint
lint: ## gofmt, vet and staticcheck
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	if [[ -n $$files ]]; then echo "not formatted by gofmt:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags nogpu ./...
	$(GO) run $(STATICCHECK) ./...

.PHONY: fmt
fmt: ## format all Go files
	git ls-files -co --exclude-standard '*.go' | xargs gofmt -w

.PHONY: cross
cross: ## build for the other systems, and the static binary without GPU support
	@for p in $(CROSS); do \
	  echo "build $$p"; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -o bin/cross/$${p%/*}-$${p#*/}/ ./cmd/lowertrace || exit 1; \
	done
	@echo "build nogpu"
	@$(GO) build -trimpath -tags nogpu -o bin/cross/nogpu/ ./cmd/lowertrace
	$(GO) test -tags nogpu -run WithoutGPU ./internal/gpu
	@if [[ $$(uname -s) == Linux ]] && ldd bin/cross/nogpu/lowertrace >/dev/null 2>&1; then \
	  echo "the nogpu binary is not static"; exit 1; fi

.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (30s)
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(or $(FUZZTIME),30s) $$pkg || exit 1; \
	  done; \
	done

.PHONY: bench
bench: build ## benchmarks of all packages, then of the whole process
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-gpu-bundle
bench-gpu-bundle: ## bin/bench-gpu: the corpus lowered and compiled, its arrays and the script that runs them (BUNDLE_FLAGS=...)
	$(GO) run ./bench/gpu/bundle -o bin/bench-gpu $(BUNDLE_FLAGS)

.PHONY: tools
tools: ## fetch what the compile and browser tests need
	scripts/fetch-nvrtc
	scripts/fetch-chromium

.PHONY: ci
ci: ## what CI runs
	.ci/run

.PHONY: clean
clean: ## remove what was built; .cache stays
	rm -rf bin tmp

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20
