//! `dlock wait`: until nobody holds a lock. It takes none.

use std::time::{Duration, Instant};

use dlock_runtime::{Holder, Key, LockError};
use serde_json::json;

use crate::args::WaitArgs;
use crate::output::{self, Notices};
use crate::server;
use crate::status::{self, Failure};
use crate::table::visible;

/// How often it asks, at first and at most.
const ASK_EVERY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// Waits until the lock is free, or the time is over.
pub(crate) async fn wait(
    args: WaitArgs,
    url: Option<&str>,
    notices: Notices,
) -> Result<u8, Failure> {
    let began = Instant::now();
    let pool = server::connect(url).await?;
    args.verbatim.check_key(&args.key, pool.namespace())?;
    let mut pause = ASK_EVERY.0;
    let mut was_away = false;
    let mut last: Option<Holder> = None;
    loop {
        match pool.holder(Key::verbatim(args.key.as_str())).await {
            Ok(None) => break,
            Ok(holder) => (last, was_away) = (holder, false),
            // It may come back in time; who waits for a lock waits for its server, too.
            Err(error @ LockError::Unavailable { .. }) => {
                if !std::mem::replace(&mut was_away, true) {
                    notices.fail(&Failure::from(error));
                }
            }
            Err(error) => return Err(error.into()),
        }
        let left = args
            .timeout
            .map(|timeout| timeout.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) {
            return Err(over(&args, last.as_ref(), was_away));
        }
        tokio::time::sleep(left.map_or(pause, |left| pause.min(left))).await;
        pause = (pause * 2).min(ASK_EVERY.1);
    }
    if notices.json {
        let waited = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        output::print(&format!(
            "{}\n",
            json!({"key": args.key, "free": true, "waited_ms": waited})
        ))?;
    }
    Ok(0)
}

fn over(args: &WaitArgs, holder: Option<&Holder>, was_away: bool) -> Failure {
    let key = visible(&args.key);
    match holder {
        _ if was_away => Failure::new(
            status::UNAVAILABLE,
            "unavailable",
            format!("it is not known whether {key} is free: the lock server can't be reached"),
        ),
        Some(holder) => Failure::new(
            status::BUSY,
            "busy",
            format!(
                "{key} is still held by {holder}: give a longer `--timeout`, or look at it by {}",
                args.verbatim.show_command(&args.key)
            ),
        ),
        None => Failure::new(status::BUSY, "busy", format!("{key} is still held")),
    }
}
