//! A counter per slot: W1 and W2 with it, beside the same without it at the same server, which is no
//! cluster. The keys are in slots of their own.

use dlock_runtime::{Config, LockPool};

use crate::Failure;
use crate::chapter::Chapter;
use crate::contenders::ours::{self, Confirmed};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Contender, TTL};
use crate::cycles::{self, Field};
use crate::lab::{Lab, connect_far};

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let url = lab.url();
    let per_slot = ours::patient(Config::new(&*url)).counter_per_slot();
    let per_slot = LockPool::connect(per_slot).await?;
    let field = Field {
        contenders: vec![
            Contender::new(
                "raw",
                raw::SENDS,
                Raw::on(connect_far(&url).await?, TTL).await?,
            ),
            Contender::new("dlock", ours::SENDS, Confirmed(ours::pool(&url).await?)),
            Contender::new(
                "dlock, a counter per slot",
                ours::SENDS,
                Confirmed(per_slot),
            ),
        ],
        beside: (["time / dlock", "server CPU / dlock"], |_| 1),
    };
    let title = "A counter per slot: acquire and release, tasks with a key each";
    cycles::sizes(lab, &field, ["slots", title], &[1, 16, 64, 256]).await
}
