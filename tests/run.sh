#!/bin/sh
# Runs all examples, tests and doctests. With `--topologies` it runs only the conformance suite, on
# each topology besides a plain server. With `--all` it runs everything: that too, 200 failovers, the
# large explorations, and the simulator for a year of simulated time (or DLOCK_SIM_HOURS), which
# takes a night. If redis-server is missing, it installs it where this user may, and otherwise says
# what to install. The last line says that all passed; if that line is missing, something failed.
set -eu
cd "$(dirname "$0")/.."

case "${1-}" in
"" | --topologies | --all) ;;
*)
    echo "usage: sh tests/run.sh [--topologies | --all]" >&2
    exit 2
    ;;
esac

if ! command -v redis-server >/dev/null 2>&1; then
    echo "redis-server is not on PATH; trying to install it"
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        # The package may start a server; the tests do not use it.
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends redis-server
    elif command -v brew >/dev/null 2>&1; then
        brew install redis
    fi
fi
if ! command -v redis-server >/dev/null 2>&1; then
    echo "tests need redis-server 6.2 or newer: apt-get install redis-server, brew install redis, or https://redis.io/docs/latest/operate/oss_and_stack/install/" >&2
    exit 1
fi

export INSTA_UPDATE=no # a snapshot that differs is a failure, not an update
# A clean clone has nothing to increment. Set it to 1 if you run this script repeatedly.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
# Smaller debug info is faster to write and to link.
export CARGO_PROFILE_DEV_DEBUG="${CARGO_PROFILE_DEV_DEBUG:-line-tables-only}"
# The same for procedural macros and their dependencies. Unset, it would depend on the targets of
# each command, and the next command would compile every crate that uses a macro again.
export CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG="$CARGO_PROFILE_DEV_DEBUG"
# More than there are cores: most tests wait for time to pass or for a server.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-12}"

dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT # there may be no server yet
trap 'exit 1' HUP INT TERM # dash runs the EXIT trap on a signal only if the signal's own trap exits

# The cases that run on a Redis server. Their users are those of the documentation. The nodes of a
# quorum vote only once they are up for two minutes, so that suite runs beside the others.
topologies() {
    failed=""
    cargo test --workspace --test conformance --no-run || return 1
    cargo test --workspace --test conformance quorum -- --ignored >"$dir/quorum" 2>&1 &
    waiting=$!
    for topology in tls sentinel sharded cluster; do
        echo "== conformance: $topology"
        case "$topology" in
        cluster) skip="--skip redis_without_scripts" ;; # refused there
        *) skip="" ;;
        esac
        # shellcheck disable=SC2086 # words
        DLOCK_TEST_TOPOLOGY=$topology cargo test --workspace --test conformance redis -- $skip || failed="$failed $topology"
    done
    echo "== conformance: quorum"
    wait "$waiting" || failed="$failed quorum"
    cat "$dir/quorum"
    [ -z "$failed" ] || {
        echo "failed:$failed"
        return 1
    }
}

if [ "${1-}" = --topologies ]; then
    topologies
    echo "== the suite passed on each topology"
    exit 0
fi

echo "== build"
cargo build --workspace --all-targets
examples="${CARGO_TARGET_DIR:-target}/debug/examples"

echo "== examples"
for example in quickstart fenced_write lottery "handover --rounds 20" failover quorum "metrics --seconds 2" "timeline --seconds 4" "market --seconds 1"; do
    echo "-- $example"
    # shellcheck disable=SC2086 # words
    "$examples"/$example
done

echo "-- quickstart on redis"
redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --appendonly no --dir "$dir" >"$dir/log" &
server=$!
tries=0
until [ -S "$dir/redis.sock" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ]; then
        echo "redis-server did not start:" >&2
        cat "$dir/log" >&2
        exit 1
    fi
    sleep 0.1
done
DLOCK_URL="redis+unix://$dir/redis.sock" "$examples/quickstart"

echo "== tests"
# No test starts a server on the default port, or needs one there. Cargo runs one test program after
# the other; the cases of these two mostly wait, so they run beside all others.
beside="--test faults --test topologies"
cargo metadata --no-deps --format-version 1 | tr '{' '\n' |
    sed -n 's/^"kind":\["\([a-z]*\)"\].*"name":"\([^"]*\)".*"test":true.*/--\1 \2/p' >"$dir/targets"
others="--lib --bins"
while read -r kind name; do
    case "$beside |$kind $name" in
    *"$kind $name "*) ;; # stands before the bar
    *"|--test "* | *"|--example "*) others="$others $kind $name" ;;
    esac
done <"$dir/targets"
case "$others" in
*"--test conformance"*) ;;
*)
    echo "tests/run.sh does not understand cargo metadata, which says:" >&2
    cargo metadata --no-deps --format-version 1 >&2
    exit 1
    ;;
esac
# shellcheck disable=SC2086 # words
cargo test --workspace --no-fail-fast $beside >"$dir/beside" 2>&1 &
waiting=$!
failed=""
# shellcheck disable=SC2086 # words
cargo test --workspace --no-fail-fast $others || failed="$others"
wait "$waiting" || failed="$failed $beside"
cat "$dir/beside"
cargo test --workspace --no-fail-fast --doc || failed="$failed --doc"
[ -z "$failed" ] || {
    echo "failed: one of $failed" >&2
    exit 1
}

if [ "${1-}" = --all ]; then
    topologies
    echo "== 200 failovers"
    DLOCK_FAILOVERS=200 cargo test -p dlock-tests --test topologies soak
    echo "== 50 reshards of a cluster"
    cargo test -p dlock-tests --test cluster -- --ignored --nocapture
    echo "== a quorum: 100,000 leases, hand-over and clean-up measured"
    cargo test --workspace --test quorum -- --ignored --nocapture --test-threads 1
    echo "== large explorations"
    cargo test --release -p dlock-runtime --lib explore_large -- --ignored --nocapture --test-threads 1
    echo "== a night of the simulator"
    cargo test --release -p dlock-runtime --lib simulate_night -- --ignored --nocapture
fi
echo "== all examples and tests passed"
