//! Methods of traits: native `async fn`, provided ones, and `#[async_trait]`, which rewrites the
//! method before the attribute sees it.

use std::fmt::Display;

use dlock_runtime::{LockError, LockPool, distributed_lock};

use super::{held, memory};

struct Shop {
    shard: String,
    locks: LockPool,
}

async fn shop() -> Shop {
    Shop {
        shard: "eu".to_owned(),
        locks: memory().await,
    }
}

trait Native {
    async fn required(&self, id: u8) -> Result<String, LockError>;

    #[distributed_lock(key = "provided:<id>")]
    async fn provided(&self, id: u8) -> Result<[String; 2], LockError> {
        Ok([held(), self.required(id).await?])
    }
}

impl Native for Shop {
    #[distributed_lock(key = "required:<id>:<self.shard>")]
    async fn required(&self, id: u8) -> Result<String, LockError> {
        let _ = id;
        Ok(held())
    }
}

#[async_trait::async_trait]
trait Dynamic: Send + Sync {
    async fn get(
        &self,
        pair: (u8, u8),
        name: &str,
        id: u8,
    ) -> Result<Box<dyn Display + Send>, LockError>;

    #[distributed_lock(key = "provided:<self.shard()>:<id>")]
    async fn provided(&self, id: u8) -> Result<String, LockError> {
        let _ = id;
        Ok(held())
    }

    fn shard(&self) -> &str;

    async fn unit(&mut self, log: &mut Vec<String>);

    async fn consume(self: Box<Self>) -> String;
}

#[async_trait::async_trait]
impl Dynamic for Shop {
    #[distributed_lock(key = "get:<self.shard>:<a>:<name>:<id>", pool = self.locks, guard = lock)]
    async fn get(
        &self,
        (a, b): (u8, u8),
        name: &str,
        mut id: u8,
    ) -> Result<Box<dyn Display + Send>, LockError> {
        id += a + b;
        Ok(Box::new(format!("{name}{id} {}", lock.key())))
    }

    fn shard(&self) -> &str {
        &self.shard
    }

    #[distributed_lock(key = "unit:<self.shard>", pool = self.locks, on_error = |error| panic!("{}", error))]
    async fn unit(&mut self, log: &mut Vec<String>) {
        self.shard.push('x');
        log.push(held());
    }

    #[distributed_lock(key = "consume:<self.shard>", pool = self.locks, on_error = |error| error.to_string())]
    async fn consume(self: Box<Self>) -> String {
        held()
    }
}

pub(super) async fn rows() {
    let shop = shop().await;
    ok!(Native::provided(&shop, 7), ["provided:7", "required:7:eu"]);
    let mut shop: Box<dyn Dynamic> = Box::new(shop);
    let got = shop.get((1, 2), "ann", 3).await.unwrap();
    assert_eq!(got.to_string(), "ann6 get:eu:1:ann:3");
    ok!(shop.provided(4), "provided:eu:4");
    let mut log = Vec::new();
    shop.unit(&mut log).await;
    assert_eq!((log, shop.shard()), (vec!["unit:eu".to_owned()], "eux"));
    // It can be spawned.
    assert_eq!(tokio::spawn(shop.consume()).await.unwrap(), "consume:eux");
}
