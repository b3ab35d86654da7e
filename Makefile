.DEFAULT_GOAL := help
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## this list
	@grep -hE '^[a-z/-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "%-18s %s\n", $$1, $$2}'

.PHONY: build
build: ## bin/cdc-relay
	go build -trimpath -o bin/cdc-relay ./cmd/cdc-relay

.PHONY: demo
demo: ## real events through a real slot, with a kill -9 in the middle
	go run ./cmd/cdc-relay demo

.PHONY: test
test: ## every suite; starts its own Postgres, and Kafka where Java and Maven are
	go test ./...

.PHONY: test/short
test/short: ## unit tests and short versions of the rest
	go test -short ./...

.PHONY: test/race
test/race: ## every suite under the race detector
	go test -race -timeout 40m ./...

.PHONY: mutants
mutants: ## wrong relays, each of which has to turn a named test red (MUTANTS=regexp for some)
	go run ./test/mutants -run '$(MUTANTS)'

.PHONY: simulation
simulation: ## the relay in a simulated world, SEEDS (10000) times
	go test ./test/simulation -count=1 -run '^TestSeeds$$' -v -timeout 30m -args -seeds $${SEEDS:-10000}

.PHONY: soak
soak: ## real servers and the real binary under faults for SOAK (30m), SEED to repeat one
	go test ./test/crash -count=1 -run '^TestSoak$$' -v -timeout 0 -args -soak $${SOAK:-30m} -soak.seed $${SEED:-0}

.PHONY: ci
ci: ## what must hold on a commit
	bash .ci/run

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (30s)
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	  echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzzminimizetime 20x -fuzztime $${FUZZTIME:-30s} $$p || exit 1; done; done

.PHONY: bench
bench: ## Go benchmarks with allocations
	go test -run '^$$' -bench . -benchmem ./decode/... ./shard ./sink/kafka ./checkpoint ./wal

.PHONY: lint
lint: ## golangci-lint with the rules of .golangci.yml
	go run $(GOLANGCI) run ./...
