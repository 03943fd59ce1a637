# The two commands a newcomer needs: make run, make test.

.PHONY: run build setup test lint

# Builds and starts everything in one process on http://127.0.0.1:8080/acp.
run:
	cargo run --release --quiet --locked -- serve

build:
	cargo build --release --locked

# Installs what the tests need.
setup:
	./scripts/setup

lint:
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Everything: formatting, lints, unit tests, stores on a real Redis, end-to-end tests.
test: setup lint
	./scripts/test
