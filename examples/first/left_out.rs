//! `cargo test` at the root tests the default members, which have no tests: this one says so.

fn main() {
    println!("\nThese are only the first examples. The tests of dlock: sh tests/run.sh\n");
}
