//! A lock of three servers: W1 and W2 beside the same at one of them, and `rslock` on the same three.
//! The servers share a core, so the CPU time counts: what each server needs is that of the first
//! one. Then the same behind a wire, where their time hardly matters to few tasks.

use std::time::Duration;

use dlock_runtime::{Config, LockPool};
use rslock::LockManager;

use crate::Failure;
use crate::chapter::Chapter;
use crate::contenders::ours::{self, Confirmed};
use crate::contenders::peer::{self, Peer};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Contender, TTL};
use crate::cycles::{self, Field};
use crate::lab::{Lab, connect_far};

/// A round trip of 0.5 ms.
const EACH_WAY: Duration = Duration::from_micros(250);

/// Measures without a wire, and behind this one.
pub(crate) async fn chapters(
    lab: &Lab,
    each_way: Option<Duration>,
) -> Result<Vec<Chapter>, Failure> {
    let each_way = each_way.unwrap_or(EACH_WAY);
    let others = [lab.another()?, lab.another()?];
    let near = chapter(lab, &others, &[1, 16, 64, 256]).await?;
    drop(others);
    let others = [lab.another_far(each_way)?, lab.another_far(each_way)?];
    let far = chapter(&lab.another_far(each_way)?, &others, &[1, 16, 64]).await?;
    Ok(vec![near, far])
}

async fn chapter(lab: &Lab, others: &[Lab; 2], sizes: &[usize]) -> Result<Chapter, Failure> {
    let urls = [lab.url(), others[0].url(), others[1].url()];
    let config = ours::patient(Config::redlock(urls.clone())).max_ttl(TTL);
    let three = LockPool::connect(config.default_ttl(TTL)).await?;
    eprintln!("dlock-benches: new servers do not vote before {TTL:?} and a second have passed");
    let first = three
        .lock("first")
        .ttl(TTL)
        .wait(TTL * 2 + Duration::from_secs(5));
    first.acquire().await?.release().await?;
    let field = Field {
        contenders: vec![
            Contender::new(
                "raw, one server",
                raw::SENDS,
                Raw::on(connect_far(&urls[0]).await?, TTL).await?,
            ),
            Contender::new(
                "dlock, one server",
                ours::SENDS,
                Confirmed(ours::pool(&urls[0]).await?),
            ),
            Contender::new(
                "rslock, three servers",
                peer::SENDS,
                Peer(LockManager::new(urls.to_vec())),
            ),
            Contender::new("dlock, three servers", ours::SENDS, Confirmed(three)),
        ],
        beside: (
            ["time / dlock, one server", "server CPU / dlock, one server"],
            |_| 1,
        ),
    };
    let title = lab.title("A lock of three servers: acquire and release, tasks with a key each");
    cycles::sizes(lab, &field, ["quorum", &title], sizes).await
}
