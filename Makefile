# make help lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Where fetched tools go, and first in line when a command is looked up.
# /usr/sbin holds nginx and is missing from an ordinary user's PATH on Debian.
TOOLS_DIR ?= $(CURDIR)/.tools
override TOOLS_DIR := $(abspath $(TOOLS_DIR))
export TOOLS_DIR
export PATH := $(TOOLS_DIR)/bin:$(PATH):/usr/sbin

# Only the race detector needs C; all else is compiled without, once for all targets.
export CGO_ENABLED := 0

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATICCHECK := go tool -modfile=tools/go.mod staticcheck
FUZZTIME ?= 10s

# -race where a C compiler is there to link it; RACE= goes without.
RACE ?= $(shell CGO_ENABLED=1 go build -race runtime/cgo 2>/dev/null && echo -race)
GO_TEST = CGO_ENABLED=$(if $(RACE),1,0) go test $(RACE) -count=1

##@ For everyone

.PHONY: demo
demo: build ## Run the experiment: table on the terminal, page in report.html
	@tools/fetch.sh envoy
	bin/taper lab balance --report report.html

.PHONY: test
test: tools ## Run every test, with the race detector if there is a C compiler
	$(GO_TEST) ./...

.PHONY: build
build: ## Build bin/taper
	go build -ldflags '-X taper.dev/taper/internal/cli.version=$(VERSION)' -o bin/taper ./cmd/taper

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ For those who change it

.PHONY: tools
tools: ## Fetch the servers that the lab and the tests run into .tools (TOOLS_DIR)
	@tools/fetch.sh

.PHONY: verify
verify: ## Check format, vet, staticcheck, go.mod, layers, links and generated files
	@unformatted=$$(gofmt -l cmd internal); \
		[ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w on: $$unformatted"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	go mod tidy -diff
	go -C tools mod tidy -diff
	$(GO_TEST) ./internal/archtest
	$(GO_TEST) -run '^TestReference' ./internal/cli

.PHONY: generate
generate: ## Write generated files anew
	go generate ./...

.PHONY: bench
bench: build tools ## Measure a decision and the experiment, beside what is aimed for
	go test -run '^$$' -bench . -benchmem ./internal/balance
	tools/bench.py bin/taper $(KINDS)

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME (10s) each
	@tools/fuzz.sh $(FUZZTIME)

.PHONY: clean
clean: ## Remove what was built and measured; fetched tools stay
	rm -rf bin report.html
