//! `map_err` uses an argument that the body took.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<name>", map_err = |error| format!("{name}: {error}"))]
async fn purchase(name: String) -> Result<usize, String> {
    Ok(name.len())
}

fn main() {
    let _kept = purchase(String::from("lamp"));
}
