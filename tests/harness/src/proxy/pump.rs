//! The two directions of a connection. Each is a loop over whole frames: trigger first, then the verb.

use std::future::pending;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::link::Link;
use super::mode::Way;
use super::trigger::{Action, Registered};
use crate::resp::Splitter;

/// Why a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Reset the client.
    Cut,
    /// The server has closed its side, and may have said something before.
    Upstream,
    /// The client has gone while its requests are held.
    Client,
}

/// Client to server.
pub(super) async fn requests(link: &Link, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
    let mut splitter = Splitter::requests();
    loop {
        while let Some(request) = splitter.next_frame() {
            let Some(trigger) = link.shared.due(&request) else {
                if link.may_pass(Way::Requests).await {
                    forward(link, &mut to, &request, None).await;
                }
                continue;
            };
            match trigger.action {
                Action::CutBefore => return cut(&trigger),
                Action::CutInside(n) => {
                    let part = &request[..n.min(request.len())];
                    let _ = to.write_all(part).await;
                    return cut(&trigger);
                }
                Action::CutAfter | Action::CutReply(_) => {
                    forward(link, &mut to, &request, Some(trigger)).await;
                    // Nothing after it may reach the server; the other direction ends this.
                    return pending().await;
                }
                Action::HoldReply => forward(link, &mut to, &request, Some(trigger)).await,
                Action::Hold => {
                    let since = link.hold(&request);
                    link.hold(&splitter.take_rest());
                    trigger.fire();
                    if !hold_until_released(link, &mut from, since).await {
                        return End::Client;
                    }
                    splitter = deliver_held(link, &mut to).await;
                }
                Action::Signal => unreachable!("signals are given when they are due"),
            }
        }
        if !read(&mut from, &mut splitter).await {
            link.may_end(Way::Requests).await;
            let _ = to.shutdown().await;
            // The replies to what was forwarded may still come: the server's end is the end.
            return pending().await;
        }
        link.latency().await;
    }
}

/// Server to client.
pub(super) async fn replies(link: &Link, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
    let mut splitter = Splitter::replies();
    loop {
        while let Some(reply) = splitter.next_frame() {
            if let Some(trigger) = link.answer(&reply) {
                let through = match trigger.action {
                    Action::CutAfter => Some(0),
                    Action::CutReply(n) => Some(n.min(reply.len())),
                    _ => None,
                };
                if let Some(through) = through {
                    let _ = to.write_all(&reply[..through]).await;
                    return cut(&trigger);
                }
                let since = link.releases();
                trigger.fire();
                link.released(since).await;
            }
            if link.may_pass(Way::Replies).await {
                // A client that has gone is noticed by the other direction, which has yet to forward what it said before.
                let _ = to.write_all(&reply).await;
            }
        }
        if !read(&mut from, &mut splitter).await {
            link.may_end(Way::Replies).await;
            return End::Upstream;
        }
        link.latency().await;
    }
}

fn cut(trigger: &Registered) -> End {
    trigger.fire();
    End::Cut
}

async fn forward(
    link: &Link,
    to: &mut WriteHalf<'_>,
    request: &[u8],
    trigger: Option<Arc<Registered>>,
) {
    link.ask(request, trigger);
    // A server that has gone is noticed by the other direction.
    let _ = to.write_all(request).await;
}

/// Whether the client was still there at the release.
async fn hold_until_released(link: &Link, from: &mut ReadHalf<'_>, since: u64) -> bool {
    let mut buffer = [0; 4096];
    loop {
        tokio::select! {
            biased;
            () = link.released(since) => return true,
            read = from.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return false,
                Ok(length) => _ = link.hold(&buffer[..length]),
            },
        }
    }
}

/// Sends the request that was held, whose trigger is used up; those that came behind it go their normal way.
async fn deliver_held(link: &Link, to: &mut WriteHalf<'_>) -> Splitter {
    let mut splitter = Splitter::requests();
    if let Some(held) = link.take_held() {
        splitter.push(&held.bytes);
    }
    if let Some(first) = splitter.next_frame() {
        forward(link, to, &first, None).await;
    }
    splitter
}

/// Whether there was anything to read.
async fn read(from: &mut ReadHalf<'_>, splitter: &mut Splitter) -> bool {
    let mut buffer = [0; 4096];
    match from.read(&mut buffer).await {
        Ok(0) | Err(_) => false,
        Ok(length) => {
            splitter.push(&buffer[..length]);
            true
        }
    }
}
