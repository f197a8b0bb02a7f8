# New here? `make demo` and `make test` are all that you need.
# The other targets are for people who work on tachograph.

CARGO ?= cargo
TACHOGRAPH := target/release/tachograph
DENY_VERSION := 0.20.2

# What a first build would keep for the next one makes it longer.
ifeq ($(wildcard target/debug/incremental),)
export CARGO_INCREMENTAL = 0
endif

.PHONY: demo demo-short test build dist setup check lint deny unit python prove bench docs clean experiments packages truth

## demo: gunicorn on TCP against gunicorn on a Unix socket, directly and behind nginx
demo: build
	@./scripts/demo.sh $(TACHOGRAPH)

## test: set up, then all checks and tests
test: setup check unit python demo-short deny
	@echo "make test: all passed"

build:
	$(CARGO) build --release --locked -p tachograph

# As it is in packages: takes longer to build, and is what the published figures measure.
dist:
	$(CARGO) build --profile dist --locked -p tachograph

## setup: install what the tests need from the system, or print what is missing
setup:
	@./scripts/setup.sh

check: lint docs

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) check --locked --bins --no-default-features --manifest-path fuzz/Cargo.toml --target-dir target

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

unit:
	CARGO="$(CARGO)" ./scripts/test.sh

## demo-short: the demo in a minute, with the test build
demo-short: export DEMO_MAX_TIME = 60s
demo-short: export DEMO_REPORT = target/demo-short.html
demo-short: export TACHOGRAPH_RECORD = target/demo-short.sqlite
demo-short:
	$(CARGO) test --workspace --locked --no-run --quiet
	@rm -f target/demo-short.sqlite*
	@./scripts/demo.sh target/debug/tachograph

python:
	cd python && python3 -m unittest -q
	TACHOGRAPH="$(CURDIR)/target/debug/tachograph" python3 packaging/action/test_action.py -q

deny:
	@./scripts/deny.sh $(DENY_VERSION)

## experiments: all experiments in short form; writes docs/results/ (about three hours)
experiments: build
	@./scripts/experiments.sh $(TACHOGRAPH)

## prove: the long proofs of the method; hours, not minutes (see docs/proofs/)
prove: build
	$(CARGO) run --release --locked -p xtask -- prove all

## bench: compare our load engine with wrk, ab, h2load and oha; writes docs/performance.md (more than ten minutes)
bench: dist
	$(CARGO) run --profile dist --locked -p xtask -- bench

## packages: build the packages that can be built here, and try each in a fresh place (as root; about half an hour)
packages:
	@./packaging/tools.sh
	@./packaging/build.sh
	@./packaging/try.sh

## truth: what load generators and `compare` report, also about published stacks, and what time-series stores keep, beside what is true; installs them (target/truth-tools, Debian's packages) and writes docs/truth.md, docs/instruments.md and docs/truth-stores.md (about three hours after that)
truth: dist
	@./scripts/truth-tools.sh target/truth-tools
	$(CARGO) run --profile dist --locked -p xtask -- truth
	$(CARGO) run --profile dist --locked -p xtask -- instruments
	PATH="$(CURDIR)/target/truth-tools/bin:$$PATH" $(CARGO) run --profile dist --locked -p xtask -- truth-stores

clean:
	$(CARGO) clean
