//! Methods: every receiver, fields and methods of `self` in the key, and a pool in `self`.

use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use dlock_runtime::{Holder, LockError, LockPool, distributed_lock};

use crate::{held, memory};

struct Order {
    user: User,
}

struct User {
    id: u64,
}

struct Shop {
    shard: String,
    locks: LockPool,
    stock: HashMap<u8, Vec<u8>>,
    pair: (u8, (u8, u8)),
    r#type: u8,
}

impl Shop {
    #[distributed_lock(
        key = "s:{<self.shard>}:<order.user.id>:<self.pair.1.0>:<self.r#type>",
        pool = self.locks
    )]
    async fn by_reference(&self, order: &Order) -> Result<(&str, String), LockError> {
        assert_eq!(order.user.id, 8);
        Ok((&self.shard, held()))
    }

    #[distributed_lock(key = "s:<self.shard.len()>:<r#fn>", pool = self.pool())]
    async fn by_mutable_reference(
        &mut self,
        r#fn: u8,
    ) -> Result<(&mut Vec<u8>, String), LockError> {
        Ok((self.stock.entry(r#fn).or_default(), held()))
    }

    #[distributed_lock(key = "s:<self.shard>", pool = &self.locks)]
    async fn by_value(mut self) -> Result<String, LockError> {
        self.shard.push('x');
        Ok(self.shard + &held())
    }

    #[distributed_lock(key = "arc:<self.shard>", pool = self.locks)]
    async fn by_arc(self: Arc<Self>) -> Result<(String, String), LockError> {
        Ok((self.shard.clone(), held()))
    }

    #[distributed_lock(key = "arc ref:<self.shard>", pool = self.locks)]
    async fn by_arc_reference(self: &Arc<Self>) -> Result<(Arc<Self>, String), LockError> {
        Ok((Arc::clone(self), held()))
    }

    #[distributed_lock(key = "box:<self.shard>", pool = self.locks)]
    async fn by_box(self: Box<Self>) -> Result<(String, String), LockError> {
        Ok((self.shard, held()))
    }

    #[distributed_lock(key = "rc:<self.shard>", pool = self.locks)]
    async fn by_rc(self: Rc<Self>) -> Result<(String, String), LockError> {
        Ok((self.shard.clone(), held()))
    }

    #[distributed_lock(key = "pin:<self.shard>", pool = self.locks)]
    async fn by_pin(self: Pin<&mut Self>) -> Result<(usize, String), LockError> {
        Ok((self.stock.len(), held()))
    }

    #[distributed_lock(key = Self::key(id), pool = locks)]
    async fn associated(id: u8, locks: LockPool) -> Result<(Self, String), LockError> {
        Ok((Self::new(&id.to_string(), &locks), held()))
    }

    fn key(id: u8) -> String {
        format!("shop:{id}")
    }

    fn pool(&self) -> LockPool {
        self.locks.clone()
    }

    fn new(shard: &str, locks: &LockPool) -> Self {
        Self {
            shard: shard.to_owned(),
            locks: locks.clone(),
            stock: HashMap::new(),
            pair: (1, (2, 3)),
            r#type: 4,
        }
    }
}

#[tokio::test]
async fn references() {
    let mut shop = Shop::new("eu", &memory().await);
    let order = Order {
        user: User { id: 8 },
    };
    let (shard, key) = shop.by_reference(&order).await.unwrap();
    assert_eq!((shard, key.as_str()), ("eu", "s:{eu}:8:2:4"));
    let (stock, key) = shop.by_mutable_reference(1).await.unwrap();
    stock.push(1);
    assert_eq!((stock.len(), key.as_str()), (1, "s:2:1"));
}

#[tokio::test]
async fn owned_and_smart_pointers() {
    let locks = memory().await;
    let shop = || Shop::new("eu", &locks);
    assert_eq!(shop().by_value().await.unwrap(), "euxs:eu");
    let both = |name: &str| ("eu".to_owned(), format!("{name}:eu"));
    assert_eq!(Arc::new(shop()).by_arc().await.unwrap(), both("arc"));
    assert_eq!(Box::new(shop()).by_box().await.unwrap(), both("box"));
    assert_eq!(Rc::new(shop()).by_rc().await.unwrap(), both("rc"));
    let shared = Arc::new(shop());
    let (same, key) = shared.by_arc_reference().await.unwrap();
    assert!(Arc::ptr_eq(&shared, &same));
    assert_eq!(key, "arc ref:eu");
    let mut pinned = Box::pin(shop());
    assert_eq!(
        pinned.as_mut().by_pin().await.unwrap(),
        (0, "pin:eu".to_owned())
    );
    let (made, key) = Shop::associated(5, locks).await.unwrap();
    assert_eq!((made.shard.as_str(), key.as_str()), ("5", "shop:5"));
}

static TOLD_AT: OnceLock<LockPool> = OnceLock::new();

/// The function that others read of who holds the lock of this body.
async fn told() -> Result<String, LockError> {
    match TOLD_AT.get().unwrap().holder("told").await? {
        Some(Holder::Process(holder)) => Ok(holder.function().to_owned()),
        other => panic!("{other:?}"),
    }
}

struct Left;

struct Right<T, const N: usize>([T; N]);

trait Told {
    async fn of_trait(&self) -> Result<String, LockError>;

    #[distributed_lock(key = "told")]
    async fn provided(&self) -> Result<String, LockError> {
        told().await
    }
}

#[async_trait::async_trait]
trait ToldByBox {
    async fn boxed(&self) -> Result<String, LockError>;
}

macro_rules! told {
    ($(<$parameter:ident: $bound:ident>)?) => {
        #[distributed_lock(key = "told")]
        async fn told $(<$parameter: $bound>)? (&self $(, _: $parameter)?) -> Result<String, LockError> {
            told().await
        }
    };
}

impl Left {
    told!();
}

impl<T: Sync, const N: usize> Right<T, N> {
    told!(<U: Default>);
}

impl Told for Left {
    #[distributed_lock(key = "told")]
    async fn of_trait(&self) -> Result<String, LockError> {
        told().await
    }
}

impl<T: Sync> Told for Right<Vec<T>, 1> {
    #[distributed_lock(key = "told")]
    async fn of_trait(&self) -> Result<String, LockError> {
        told().await
    }
}

#[async_trait::async_trait]
impl ToldByBox for Left {
    #[distributed_lock(key = "told")]
    async fn boxed(&self) -> Result<String, LockError> {
        told().await
    }
}

#[distributed_lock(key = "outer")]
async fn nests() -> Result<String, LockError> {
    #[distributed_lock(key = "told")]
    async fn nested<T>(_: T) -> Result<String, LockError> {
        told().await
    }
    nested(1).await
}

/// Two types of one module are told apart.
#[tokio::test]
async fn a_holder_tells_its_type() {
    let pool = memory().await;
    let pool = TOLD_AT.get_or_init(|| pool);
    pool.scope(async {
        let right = Right([vec![1]]);
        let here = "forms::receivers";
        for (told, expected) in [
            (Left.told().await, "@::Left::told"),
            (right.told(1).await, "@::Right::told"),
            (Left.of_trait().await, "<@::Left as @::Told>::of_trait"),
            (right.of_trait().await, "<@::Right as @::Told>::of_trait"),
            (right.provided().await, "@::Told::provided"),
            (Left.boxed().await, "<@::Left as @::ToldByBox>::boxed"),
            (nests().await, "@::nests::nested"),
        ] {
            assert_eq!(told.unwrap(), expected.replace('@', here));
        }
    })
    .await;
}
