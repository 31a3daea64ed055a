//! Where a function may be: in functions, blocks, constants, closures, and in an `impl` inside any
//! of them.

use dlock_runtime::{LockError, distributed_lock};

use super::held;

async fn around() -> Result<Vec<String>, LockError> {
    #[distributed_lock(key = "nested:<id>")]
    async fn nested(id: u8) -> Result<String, LockError> {
        #[distributed_lock(key = "nested twice:<id>")]
        async fn nested(id: u8) -> Result<String, LockError> {
            Ok(held())
        }
        Ok([held(), nested(id + 1).await?].join(" "))
    }

    struct Local(u8);

    impl Local {
        const START: u8 = 3;

        #[distributed_lock(key = "local:<self.0>")]
        async fn method(&self) -> Result<String, LockError> {
            Ok(held())
        }
    }

    let mut keys = vec![nested(1).await?, Local(Local::START).method().await?];
    {
        #[distributed_lock(key = "block")]
        async fn nested() -> Result<String, LockError> {
            Ok(held())
        }
        keys.push(nested().await?);
    }
    let closure = async || {
        #[distributed_lock(key = "closure")]
        async fn nested() -> Result<String, LockError> {
            Ok(held())
        }
        nested().await
    };
    keys.push(closure().await?);
    Ok(keys)
}

trait Constant {
    async fn called(&self) -> Result<String, LockError>;
}

struct Shop;

const _: () = {
    const NAME: &str = "constant";

    impl Constant for Shop {
        #[distributed_lock(key = "<NAME>:<INNER>")]
        async fn called(&self) -> Result<String, LockError> {
            Ok(held())
        }
    }

    const INNER: u8 = 1;
};

/// The locked function is an item of the locked body, so it is visible before the body's other
/// statements.
#[allow(
    clippy::items_after_statements,
    reason = "that it is found is the point"
)]
#[distributed_lock(key = "outer")]
async fn inside_a_body() -> Result<[String; 2], LockError> {
    let own = held();
    return Ok([own, inner().await?]);

    #[distributed_lock(key = "inner")]
    async fn inner() -> Result<String, LockError> {
        Ok(held())
    }
}

pub(super) async fn rows() {
    let keys = ["nested:1 nested twice:2", "local:3", "block", "closure"];
    ok!(around(), keys);
    ok!(Shop.called(), "constant:1");
    ok!(inside_a_body(), ["outer", "inner"]);
}
