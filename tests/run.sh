#!/bin/sh
# Runs all examples, tests and doctests, in about a quarter of an hour. Installs redis-server where it is missing and this
# user may; otherwise says what to install. Its last line says that all passed; without it, something failed.
set -eu
cd "$(dirname "$0")/.."

if ! command -v redis-server >/dev/null 2>&1; then
    echo "redis-server is not on PATH; trying to install it"
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        # A package may start a server of its own; the tests do not use it.
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

echo "== examples"
cargo build --workspace --examples --bins
for example in quickstart fenced_write lottery; do
    echo "-- $example"
    cargo run -q --example "$example"
done

echo "-- handover"
cargo run -q --example handover -- --rounds 20

echo "-- market"
cargo run -q --example market -- --seconds 1

echo "-- quickstart on redis"
dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --appendonly no --dir "$dir" >"$dir/log" &
server=$!
trap 'kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM # dash runs the trap of EXIT only then
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
DLOCK_URL="redis+unix://$dir/redis.sock" cargo run -q --example quickstart

echo "== tests"
# No test may start a server on the default port or need one there.
cargo test --workspace --no-fail-fast
echo "== all examples and tests passed"
