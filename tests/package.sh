#!/bin/sh
# Packs the crates as for publishing, then builds and runs programs outside the repository that see
# only the packed files. If rustup can get the oldest Rust that `rust-version` promises, that one
# checks them, too.
set -eu
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-$PWD/target}"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
oldest=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
crates="dlock-grammar dlock-macros dlock-runtime dlock-cli"

echo "== package"
# As for the registry: this finds what it would refuse, and keeps no packages. Both pack uncommitted
# changes, too. --no-verify: the programs below build the packages as dependents do.
cargo publish --dry-run --workspace --locked --allow-dirty --no-verify
# shellcheck disable=SC2046 # words
cargo package --locked --allow-dirty --no-verify $(printf -- '-p %s ' $crates)

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM # dash runs the EXIT trap on a signal only if the signal's own trap exits
for crate in $crates; do
    tar -xzf "$target/package/$crate-$version.crate" -C "$dir"
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        [ -s "$dir/$crate-$version/$file" ] || {
            echo "$crate has no $file" >&2
            exit 1
        }
    done
done

# Crates of the repository by their packed files, for the manifest in the folder beside them.
patches() {
    cat <<TOML

[patch.crates-io]
dlock-grammar = { path = "../dlock-grammar-$version" }
dlock-macros = { path = "../dlock-macros-$version" }
dlock-runtime = { path = "../dlock-runtime-$version" }
TOML
}

# Writes a program into the folder $1, its main.rs from standard input. $2 is added to its
# dependency on dlock-runtime.
program() {
    mkdir -p "$dir/$1/src"
    cat >"$dir/$1/src/main.rs"
    cat >"$dir/$1/Cargo.toml" <<TOML
[package]
name = "$1"
version = "0.1.0"
edition = "2024"
rust-version = "$oldest"

[dependencies]
dlock-runtime = { version = "=$version"$2 }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
TOML
    patches >>"$dir/$1/Cargo.toml"
}

program service "" <<'RUST'
use dlock_runtime::{LockError, distributed_lock, init};

#[distributed_lock(key = "item:<id>", ttl = "10s", renew)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    init("memory://").await?;
    assert_eq!(purchase(7).await?, 7);
    println!("item 7 was bought under its lock");
    Ok(())
}
RUST

program calls ', default-features = false' <<'RUST'
use dlock_runtime::{LockError, LockPool};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let pool = LockPool::connect("memory://").await?;
    let id = pool.lock("item:7").renew().run(async |_| 7).await?;
    println!("item {id} was bought under its lock");
    Ok(())
}
RUST

export CARGO_TARGET_DIR="$dir/target"
for program in service calls; do
    echo "== the program '$program'"
    cargo run --manifest-path "$dir/$program/Cargo.toml"
done
echo "== the command"
patches >>"$dir/dlock-cli-$version/Cargo.toml"
cargo run --manifest-path "$dir/dlock-cli-$version/Cargo.toml" -- --version
cargo tree --manifest-path "$dir/calls/Cargo.toml" >"$dir/tree"
if grep dlock-macros "$dir/tree"; then
    echo "without the feature 'macros' dlock-macros is built all the same" >&2
    exit 1
fi

echo "== the same with Rust $oldest"
if ! command -v rustup >/dev/null 2>&1; then
    echo "NOT CHECKED with Rust $oldest: there is no rustup" >&2
elif ! cargo "+$oldest" --version && ! rustup toolchain install "$oldest" --profile minimal; then
    echo "NOT CHECKED with Rust $oldest: rustup can't get it" >&2
else
    for program in service calls; do
        cargo "+$oldest" check --manifest-path "$dir/$program/Cargo.toml"
    done
    cargo "+$oldest" check --manifest-path "$dir/dlock-cli-$version/Cargo.toml"
fi
