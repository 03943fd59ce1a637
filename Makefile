# The commands a newcomer needs: make run, make check, make test.

.PHONY: run build setup check test lint charts deploy-test agents-test loadtest chaos soak partitions upgrade-test siege fuzz golden docs bench

# Builds and starts everything in one process on http://127.0.0.1:8080/acp.
run:
	./scripts/run serve

build:
	cargo build --release --locked

# Installs what the tests need.
setup:
	./scripts/setup

lint:
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	./scripts/check-supply

# Between two edits: formatting, lints and the unit tests of all crates, in less than two minutes once dependencies are
# built. Needs no servers and no other programs.
check:
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --lib --bins --locked --quiet

# Everything: formatting, lints, unit tests, stores on a real Redis, end-to-end tests.
test: setup lint
	./scripts/test

# The chart, the alerts and the dashboard, without a cluster.
charts:
	./scripts/check-charts

# The image and the compose files with a real Docker engine, behind each balancer, under load.
deploy-test: setup
	./scripts/deploy-test

# Product agents from npm and PyPI behind two gateways and two workers, against a model server on loopback. Writes
# docs/internals/agents.md. AGENTS names some of them.
AGENTS ?=
agents-test:
	./scripts/agents-test $(AGENTS)

# Clients of k6 against two gateways behind nginx, all started for it.
loadtest:
	./loadtests/k6/cluster smoke stream

# Kills, stops and cuts off processes for SECONDS while clients check what they see. A seed is a
# schedule; without one it is another every time, and printed. STORE is redis (one server), replica
# (promoted by hand), sentinel, cluster, valkey (a Cluster of it) or files. Where there are replicas
# it runs with --durability replicated, and no failover may lose what was acknowledged. With LOSS=1 it
# runs with --durability fast, replicas are held back before they are promoted, and what is lost
# has to be said.
SECONDS ?= 180
SEED ?= $(shell date +%s)
STORE ?= redis
LOSS ?= 0
ifeq ($(AGENT),llm)
# Workers of the built-in agent are killed at every kind of step.
chaos:
	MATRIX_SECONDS=$(SECONDS) MATRIX_SEED=$(SEED) \
	  cargo test --release --locked -p baton --test it -- --nocapture no_kill_of_a_worker
else
chaos:
	CHAOS_SECONDS=$(SECONDS) CHAOS_SEED=$(SEED) CHAOS_STORE=$(STORE) CHAOS_LOSS=$(LOSS) \
	  cargo test --release --locked -p baton --test chaos -- --nocapture no_event_is_lost
endif

# A long run in which everything stays the same: 200 sessions with a turn now and then and a fault every ten seconds,
# for SECONDS, half an hour if not given. What is kept and what processes take may not grow.
SESSIONS ?= 200
soak: SECONDS = 1800
soak: STORE = cluster
soak:
	CHAOS_SOAK=$(SESSIONS) CHAOS_SECONDS=$(SECONDS) CHAOS_SEED=$(SEED) CHAOS_STORE=$(STORE) CHAOS_LOSS=0 \
	  cargo test --release --locked -p baton --test chaos -- --nocapture no_event_is_lost

# Gateways, workers, Redis and its replica on hosts of their own, which are network namespaces: every link between them is
# cut in every direction for longer than a lease, in the order and for as long as the seed says. Needs root or a
# kernel that lets everybody make namespaces.
partitions:
	PARTITIONS=all CHAOS_SEED=$(SEED) \
	  cargo test --release --locked -p baton --test chaos -- --nocapture --test-threads 1 hosts::

# Yesterday's build and today's side by side in one cluster and after each other on one data directory, under load, forward
# and back. BASE is a revision: if not given, the last release, or what has landed last. UPGRADE_SECONDS is how long
# each mix of the two has to bear faults, STORE as with chaos.
BASE ?=
UPGRADE_SECONDS ?= 8
upgrade-test:
	CHAOS_SECONDS=$(UPGRADE_SECONDS) CHAOS_SEED=$(SEED) CHAOS_STORE=$(STORE) ./scripts/upgrade-test $(BASE)

# Attacks a gateway for SECONDS, 60 if not given, and says whether another caller noticed.
siege: SECONDS = 60
siege:
	./loadtests/siege/run --seconds $(SECONDS)

# Baton beside the official server, with the limits of each figure: half an hour. ROUNDS=3 for a quick look.
ROUNDS ?= 7
bench:
	./loadtests/bench/all --rounds $(ROUNDS)

# Fuzzes every parser that strangers reach for FUZZ_SECONDS each.
FUZZ_SECONDS ?= 600
fuzz:
	./fuzz/run $(FUZZ_SECONDS)

# Adds a golden store as this build writes it: GOLDEN=redis/NAME or directory/NAME, where the name begins with the
# number of its format. For whoever adds a kind of key, a field or a format.
golden:
	GOLDEN=$(GOLDEN) cargo test --locked -p baton-session --test it -- --ignored golden::make

# The documentation as a site in target/site, with every link checked. Installs mdBook into target/tools.
docs:
	./scripts/docs
