//! `lead` with arguments of which there is no clone for the next term.

use dlock_runtime::{LockError, distributed_lock};

struct Db;

struct Mailer {
    db: Db,
}

impl Mailer {
    #[distributed_lock(key = "mailer", lead)]
    async fn run(self, more: Db) -> Result<(Db, Db), LockError> {
        Ok((self.db, more))
    }
}

#[distributed_lock(key = "mailer", lead)]
async fn generic<T>(db: T) -> Result<T, LockError> {
    Ok(db)
}

#[distributed_lock(key = "mailer", lead)]
async fn inside<U>(list: Vec<U>) -> Result<usize, LockError> {
    Ok(list.len())
}

// Mended.
#[distributed_lock(key = "mailer", lead)]
async fn mended<T: Clone>(db: T, more: &Db) -> Result<(T, &Db), LockError> {
    Ok((db, more))
}

fn main() {
    let _kept = (Mailer { db: Db }.run(Db), generic(7), inside(vec![7]), mended(7, &Db));
}
