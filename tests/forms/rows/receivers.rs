//! Methods: every receiver, fields and methods of `self` in the key, and a pool in `self`.

use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use dlock_runtime::{Holder, LockError, LockPool, distributed_lock};

use super::{held, memory};

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

static TOLD_AT: OnceLock<LockPool> = OnceLock::new();

/// The function that others read of who holds the lock of this body.
async fn told() -> Result<String, LockError> {
    match TOLD_AT.get().unwrap().holder("told").await? {
        Some(Holder::Process(holder)) => Ok(holder.function().to_owned()),
        other => panic!("{:?}", other),
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

pub(super) async fn rows() {
    let locks = memory().await;
    let shop = || Shop::new("eu", &locks);
    let (mut by_reference, user) = (shop(), User { id: 8 });
    ok!(
        by_reference.by_reference(&Order { user }),
        ("eu", "s:{eu}:8:2:4")
    );
    let (stock, key) = by_reference.by_mutable_reference(1).await.unwrap();
    stock.push(1);
    assert_eq!((stock.len(), key.as_str()), (1, "s:2:1"));
    ok!(shop().by_value(), "euxs:eu");
    ok!(Arc::new(shop()).by_arc(), ("eu", "arc:eu"));
    ok!(Box::new(shop()).by_box(), ("eu", "box:eu"));
    ok!(Rc::new(shop()).by_rc(), ("eu", "rc:eu"));
    let shared = Arc::new(shop());
    let (same, key) = shared.by_arc_reference().await.unwrap();
    assert!(Arc::ptr_eq(&shared, &same));
    assert_eq!(key, "arc ref:eu");
    ok!(Box::pin(shop()).as_mut().by_pin(), (0, "pin:eu"));
    let (made, key) = Shop::associated(5, locks).await.unwrap();
    assert_eq!((made.shard.as_str(), key.as_str()), ("5", "shop:5"));
    let pool = memory().await;
    let pool = TOLD_AT.get_or_init(|| pool);
    pool.scope(a_holder_tells_its_type()).await;
}

/// Two types of one module are told apart.
async fn a_holder_tells_its_type() {
    let right = Right([vec![1]]);
    for (told, expected) in [
        (Left.told().await, "@::Left::told"),
        (right.told(1).await, "@::Right::told"),
        (Left.of_trait().await, "<@::Left as @::Told>::of_trait"),
        (right.of_trait().await, "<@::Right as @::Told>::of_trait"),
        (right.provided().await, "@::Told::provided"),
        (Left.boxed().await, "<@::Left as @::ToldByBox>::boxed"),
        (nests().await, "@::nests::nested"),
    ] {
        assert_eq!(told.unwrap(), expected.replace('@', module_path!()));
    }
}
