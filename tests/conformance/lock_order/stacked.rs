//! Several attributes on one function: all are expanded at the first one, but each lock is reported
//! at its own line.

use super::{Outcome, everywhere, inversion, item, nothing, user};
use dlock_runtime::{LockOrder, distributed_lock};

const FIRST: u32 = line!() + 1;
#[distributed_lock(key = "item:<id>", ttl = "60s")]
#[distributed_lock(key = "user:<name>", ttl = "60s")]
async fn stacked(id: u32, name: &str) -> Outcome {
    Ok(())
}

macro_rules! stacked_by_a_macro {
    () => {
        #[distributed_lock(key = "item:<id>", ttl = "60s")]
        #[distributed_lock(key = "user:<name>", ttl = "60s")]
        async fn made(id: u32, name: &str) -> Outcome {
            Ok(())
        }
    };
}

const MACRO: u32 = line!() + 1;
stacked_by_a_macro!();

fn at(text: &str, function: &str, line: u32) -> String {
    let (module, file) = (module_path!(), file!());
    format!("`{text}` ({module}::{function}, {file}:{line})")
}

#[tokio::test]
async fn each_is_logged_at_its_own_line() {
    everywhere(LockOrder::Refuse, async |pool, _| {
        pool.scope(stacked(7, "ann")).await.unwrap();
        let back = pool.scope(user("bob", async || item(8, nothing).await));
        let told = inversion(&back.await.unwrap_err()).unwrap();
        let [item, user] = [
            at("item:<id>", "stacked", FIRST),
            at("user:<name>", "stacked", FIRST + 1),
        ];
        let said = format!("elsewhere {item} then {user}");
        assert!(told.ends_with(&said), "{told}");
    })
    .await;
}

/// As with `line!()`, the position of what a macro wrote is where the macro is called.
#[tokio::test]
async fn in_a_macro_they_are_where_it_is_called() {
    everywhere(LockOrder::Refuse, async |pool, _| {
        pool.scope(made(7, "ann")).await.unwrap();
        let back = pool.scope(user("bob", async || item(8, nothing).await));
        let told = inversion(&back.await.unwrap_err()).unwrap();
        let [item, user] = ["item:<id>", "user:<name>"].map(|text| at(text, "made", MACRO));
        let said = format!("elsewhere {item} then {user}");
        assert!(told.ends_with(&said), "{told}");
    })
    .await;
}
