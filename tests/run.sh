#!/bin/sh
# Runs all tests, doctests and examples. Installs redis-server where it is missing and this user may;
# otherwise says what to install. Ends with a summary that `.ci/run` repeats.
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
for example in quickstart fenced_write; do
    echo "-- $example"
    cargo run -q --example "$example"
done

echo "== tests"
# No test may start a server on the default port or need one there.
cargo test --workspace --no-fail-fast
