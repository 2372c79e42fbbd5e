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
COMMANDS := taper taper-operator kubectl-taper
LDFLAGS = $(foreach package,cli operator kubectl,-X taper.dev/taper/internal/$(package).version=$(VERSION))
STATICCHECK := go tool -modfile=tools/go.mod staticcheck
FUZZTIME ?= 10s

# -race where a C compiler is there to link it; RACE= goes without.
RACE ?= $(shell CGO_ENABLED=1 go build -race runtime/cgo 2>/dev/null && echo -race)
# These calculate for long, in one goroutine: the race detector has nothing to find.
UNRACED := /(internal/attribution|internal/sim|internal/sim/scenario|test/explain)$$
# What make test tests.
PACKAGES ?= ./...
GO_TEST = CGO_ENABLED=$(if $(RACE),1,0) go test $(RACE) -count=1

##@ For everyone

.PHONY: demo
demo: bin/taper ## Run the experiment: table on the terminal, page in report.html
	@tools/fetch.sh envoy
	bin/taper lab balance --report report.html

.PHONY: test
test: tools ## Run every test but e2e, with the race detector if there is a C compiler; PACKAGES=list for some
	@raced=$$(go list $(PACKAGES) | grep --invert-match --extended-regexp '$(UNRACED)' || true); \
	unraced=$$(go list $(PACKAGES) | grep --extended-regexp '$(UNRACED)' || true); failed=0; \
		[[ -z $$raced ]] || $(GO_TEST) $$raced || failed=1; \
		[[ -z $$unraced ]] || go test -count=1 $$unraced || failed=1; \
		exit $$failed

.PHONY: e2e
e2e: build ## Run the tests on a real control plane, as root; RUN=regexp for some
	@tools/fetch.sh envoy victoria-metrics helm etcd cluster offers
	$(GO_TEST) -p 1 -timeout 30m -tags e2e $(if $(RUN),-run '$(RUN)') ./test/chart ./test/cluster ./test/e2e

.PHONY: build
build: $(COMMANDS:%=bin/%) ## Build the commands into bin

.PHONY: $(COMMANDS:%=bin/%)
$(COMMANDS:%=bin/%): bin/%:
	go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ For those who change it

.PHONY: tools
tools: ## Fetch the servers that the lab and the tests run into .tools (TOOLS_DIR)
	@tools/fetch.sh

.PHONY: verify
verify: tools ## Check format, vet, staticcheck, go.mod, layers, links and generated files
	@unformatted=$$(gofmt -l api cmd internal test); \
		[ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w on: $$unformatted"; exit 1; }
	go vet ./...
	go vet -tags e2e ./test/...
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags e2e ./test/...
	go mod tidy -diff
	go -C tools mod tidy -diff
	go -C tools/cluster mod tidy -diff
	$(GO_TEST) ./internal/archtest
	$(GO_TEST) -run '^TestReference' ./internal/cli ./internal/kubectl ./internal/operator ./internal/operator/metrics
	config/generate.sh --check

.PHONY: generate
generate: tools ## Write generated files anew
	config/generate.sh
	go generate ./...

.PHONY: bench
bench: bin/taper tools ## Measure a decision and the experiment, beside what is aimed for
	go test -run '^$$' -bench . -benchmem ./internal/balance
	tools/bench.py bin/taper $(KINDS)

.PHONY: bench-operator
bench-operator: build ## Measure the operator on 1,000 policies of 100 endpoints
	@tools/fetch.sh victoria-metrics etcd cluster
	go run ./test/bench/operator

.PHONY: bench-explain
bench-explain: bin/taper ## Measure taper explain beside tshark, and its memory on 4 GB
	go run ./test/bench/explain

.PHONY: bench-net
bench-net: bin/taper ## Measure taper net beside qperf, iperf3 and netperf, as root, on a quiet machine
	go run ./test/bench/net

.PHONY: bench-sim
bench-sim: ## Measure the simulator, beside SimPy for the same queue
	go run ./test/bench/sim

.PHONY: strategies
strategies: ## Simulate every way to balance in every shipped scenario, and write docs/strategies.md anew
	go run ./test/strategies

.PHONY: bench-experiment
bench-experiment: build ## Compare the experiment through istiod with the lab's way, as root, on a quiet machine
	@tools/fetch.sh envoy victoria-metrics helm etcd cluster
	TAPER_TEST_QUIET=1 go test -count=1 -v -timeout 15m -tags e2e -run '^TestFibonacciThroughIstiod$$' ./test/e2e

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME (10s) each
	@tools/fuzz.sh $(FUZZTIME)

.PHONY: clean
clean: ## Remove what was built and measured; fetched tools stay
	rm -rf bin report.html
