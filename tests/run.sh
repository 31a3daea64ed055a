#!/bin/sh
# Runs the examples, tests and doctests but those of `--rest`, in some minutes. `--rest` runs only
# these: what needs more than one server (the default run has one module and one row of each kind of
# fault on each topology, and the examples), the known-bad variants that the explorers and simulators
# have to find, all cases of the long property tests (of which the default run has a third), and what
# compiles most of the library once more: the compile-fail cases, the benches, and the page of what
# the attribute writes. `--all` runs both, and what takes a night: processes of an older build beside
# this one, 200 failovers, 50 reshards, measurements of a quorum, the fuzz targets, the large
# explorations, and the simulator for a simulated year (or DLOCK_SIM_HOURS). What is missing of
# redis-server, PostgreSQL and, for `--rest`, PgBouncer, it installs where this user may, and otherwise
# says what to install. The last line says what passed; if it is missing, something failed.
set -eu
cd "$(dirname "$0")/.."

case "${1-}" in
"" | --rest | --all) ;;
*)
    echo "usage: sh tests/run.sh [--rest | --all]" >&2
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

has_postgres() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}
if ! has_postgres; then
    echo "PostgreSQL is not installed; trying to install it"
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        # The package would make a cluster and start a server; the tests make their own.
        mkdir -p /etc/postgresql-common
        [ -e /etc/postgresql-common/createcluster.conf ] ||
            echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql
    elif command -v brew >/dev/null 2>&1; then
        brew install postgresql
    fi
fi
if ! has_postgres; then
    echo "tests need PostgreSQL 13 or newer: apt-get install postgresql, brew install postgresql, or https://www.postgresql.org/download/" >&2
    exit 1
fi

export INSTA_UPDATE=no # a snapshot that differs is a failure, not an update
# A clean clone has nothing to increment. Set it to 1 if you run this script repeatedly.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
# More than there are cores: most tests wait for time to pass or for a server.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-12}"

dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT # there may be no server yet
trap 'exit 1' HUP INT TERM # dash runs the EXIT trap on a signal only if the signal's own trap exits

# Which test programs run when. No test starts a server on the default port, or needs one there.
# Cargo runs one program after the other; most of those that wait for time to pass or for a server
# run beside all others, so that both take about as long.
beside="--test bad_input --test cancellation --test conformance --test exclusion --test faults --test hostile --test operations --test runtimes --test without_scripts"
several_servers="--test topologies --test quorum --test cluster"
# They build most of the library once more: to see what does not compile, for the benches, and to
# print what the attribute writes.
built_again="--test ui --bin dlock-benches --test program --test expansion"

# All programs with tests; those that stand nowhere above.
others="--lib"
cargo metadata --no-deps --format-version 1 | tr '{' '\n' |
    sed -n 's/^"kind":\["\([a-z]*\)"\].*"name":"\([^"]*\)".*"test":true.*/--\1 \2/p' >"$dir/targets"
while read -r kind name; do
    case "$beside $several_servers $built_again |$kind $name" in
    *"$kind $name "*) ;; # stands before the bar
    *"|--test "* | *"|--example "* | *"|--bin "*) others="$others $kind $name" ;;
    esac
done <"$dir/targets"
case "$others" in
*"--test forms"*) ;;
*)
    echo "tests/run.sh does not understand cargo metadata, which says:" >&2
    cargo metadata --no-deps --format-version 1 >&2
    exit 1
    ;;
esac

failed=""
# Runs programs of tests, and notes which failed.
tests() {
    echo "== cargo test $*"
    ${nicely-} cargo test --workspace --no-fail-fast "$@" || failed="$failed
    cargo test --workspace $*"
}
# Begins a function that runs in the background; its output follows at the end.
begin_beside() {
    begun=$((${begun-0} + 1))
    (failed="" && "$@" && end) >"$dir/beside.$begun" 2>&1 &
    waiting="${waiting-} $!"
}
end_beside() {
    ended=0
    for process in $waiting; do
        ended=$((ended + 1))
        wait "$process" || failed="$failed
    what ran beside the others, as it says above"
        cat "$dir/beside.$ended"
    done
    begun=0 waiting=""
}
end() {
    [ -z "$failed" ] || {
        echo "failed: $failed" >&2
        exit 1
    }
}

# These conformance cases of Redis on each topology, as the users of the documentation.
on_each_topology() {
    for topology in tls sentinel sharded cluster; do
        echo "== on $topology"
        case "$topology" in
        cluster) skip="--skip redis_without_scripts" ;; # refused there
        *) skip="" ;;
        esac
        export DLOCK_TEST_TOPOLOGY="$topology"
        # shellcheck disable=SC2086 # words
        tests --test conformance -- "$@" $skip
    done
    unset DLOCK_TEST_TOPOLOGY
}

rest() {
    if ! command -v pgbouncer >/dev/null 2>&1; then
        echo "PgBouncer is not on PATH; trying to install it"
        if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
            # The package may start a server; the tests do not use it.
            apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends pgbouncer
        elif command -v brew >/dev/null 2>&1; then
            brew install pgbouncer
        fi
    fi
    # shellcheck disable=SC2086 # words
    cargo test --workspace --no-run --lib --test conformance --test faults --test wire $several_servers $built_again
    begin_beside rest_beside
    begin_beside rights
    begin_beside builds_again
    # The modules that look at the topology. They can wait better than the next while others compile.
    on_each_topology redis:: redis_by_the_server:: redis_without_scripts::
    # shellcheck disable=SC2086 # words
    tests $several_servers
    end_beside
    end
}
rest_beside() {
    # The nodes of a quorum vote only once they are up for two minutes.
    tests --test conformance quorum -- --ignored
    tests --test conformance -- --ignored postgres_pooled postgres_full_disk
    # Of each table, the default run has all rows at one server, and one on each of the others.
    DLOCK_TEST_ALL_CASES=1 tests --test faults unanswered -- --skip one_server --skip by_text --skip unanswered::without_scripts
    # The second is the long property tests.
    DLOCK_TEST_ALL_CASES=1 tests --lib -- known_bad answer_like_the_pure_machine
}
# They wait for most of their time.
rights() {
    DLOCK_TEST_ALL_CASES=1 tests --test wire rights:: -- --skip one_server
}
# Compiles while the others wait for time to pass, and after them.
builds_again() {
    nicely="nice -n 10"
    # shellcheck disable=SC2086 # words
    tests $built_again
}

if [ "${1-}" = --rest ]; then
    rest
    echo "== the rest passed"
    exit 0
fi

run_examples() {
    for example in quickstart fenced_write lottery nightly "handover --rounds 20" failover quorum ledger leader "leader --rollouts 20" "metrics --seconds 2" "timeline --seconds 4" "market --seconds 1"; do
        echo "-- $example"
        # shellcheck disable=SC2086 # words
        "$examples"/$example || failed="$failed
    the example $example"
    done
}

echo "== build"
cargo build --workspace --examples
examples="${CARGO_TARGET_DIR:-target}/debug/examples"
begin_beside run_examples # they wait more than they compute
# shellcheck disable=SC2086 # words
cargo test --workspace --no-run $others $beside

echo "== examples"
end_beside

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

# shellcheck disable=SC2086 # words
begin_beside tests $beside -- --skip postgres::
# shellcheck disable=SC2086 # words
tests $others -- --skip known_bad
tests --doc
on_each_topology exclusion::redis
end_beside
# By themselves: a lock in PostgreSQL is several statements of a process of its own, and beside explorations
# that compute on every core leases of a few seconds end.
tests --test conformance postgres::
tests --features dlock-cli/postgres --test command migrate
end

# Fleets of two builds: this one, and the one with which it has to share every lock.
beside_an_older_build() {
    older=274d16ac
    echo "== processes of build $older beside this one"
    git cat-file -e "$older^{commit}" 2>/dev/null || {
        echo "NOT RUN: this clone has no commit $older"
        return 0
    }
    built="${CARGO_TARGET_DIR:-$PWD/target}/older" # kept, so that it is compiled once
    mkdir -p "$built/$older"
    git archive "$older" | tar -xf - -C "$built/$older"
    cargo build --locked --manifest-path "$built/$older/Cargo.toml" --target-dir "$built/target" -p dlock-tests --bin worker
    DLOCK_TEST_OLD_WORKER="$built/target/debug/worker" cargo test --workspace --test exclusion -- --include-ignored
}

# Any bytes at what reads a stranger's. An input that is found belongs into tests/fuzz/corpus.
fuzz_each_target() {
    if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
        echo "NOT RUN: the fuzz targets need a nightly toolchain and cargo-fuzz: cargo install cargo-fuzz"
        return 0
    fi
    for target in $(cargo +nightly fuzz list --fuzz-dir tests/fuzz); do
        echo "== fuzz target $target, one minute"
        mkdir -p "$dir/corpus/$target" # the first one is written to
        cargo +nightly fuzz run --fuzz-dir tests/fuzz "$target" "$dir/corpus/$target" "tests/fuzz/corpus/$target" -- -max_total_time=60 -verbosity=0 -print_final_stats=1
    done
}

if [ "${1-}" = --all ]; then
    rest
    beside_an_older_build
    fuzz_each_target
    echo "== 200 failovers"
    DLOCK_FAILOVERS=200 cargo test --workspace --test topologies soak
    echo "== 50 reshards of a cluster"
    cargo test --workspace --test cluster -- --ignored --nocapture
    echo "== a quorum: 100,000 leases, hand-over and clean-up measured"
    cargo test --workspace --test quorum -- --ignored --nocapture --test-threads 1
    echo "== large explorations"
    cargo test --release -p dlock-runtime --lib explore_large -- --ignored --nocapture --test-threads 1
    echo "== a night of the simulator"
    cargo test --release -p dlock-runtime --lib simulate_night -- --ignored --nocapture
fi
echo "== all examples and tests passed"
