//! The two directions of a connection. Each is a loop over whole frames: the trigger acts first,
//! then the verb.

use std::future::pending;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::link::{Held, Link};
use super::mode::Way;
use super::trigger::{Action, Registered};
use crate::resp::{Kind, Splitter};

/// Why a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Reset the client.
    Cut,
    /// The server has closed its side, and may have sent something before.
    Upstream,
    /// The client has gone while its requests are held.
    Client,
}

/// Client to server.
pub(super) async fn requests(link: &Link, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
    let mut splitter = Splitter::requests();
    loop {
        while let Some(request) = splitter.next_frame() {
            let Some(trigger) = link.shared.due(&request, Way::Requests) else {
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
                    // No later request may reach the server; the other direction ends this
                    // connection.
                    return pending().await;
                }
                Action::HoldReply | Action::HoldReplyAlone => {
                    forward(link, &mut to, &request, Some(trigger)).await;
                }
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
                Action::LoseMessage | Action::HoldMessage | Action::RepeatMessage => {
                    unreachable!("no request is due for these")
                }
            }
        }
        if !read(&mut from, &mut splitter).await {
            link.may_end(Way::Requests).await;
            let _ = to.shutdown().await;
            // Replies to forwarded requests may still come, so the connection ends with the
            // server's end.
            return pending().await;
        }
        link.latency().await;
    }
}

/// Server to client.
pub(super) async fn replies(link: &Link, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
    let mut splitter = Splitter::replies();
    let mut kept = Kept::default();
    loop {
        while let Some(frame) = splitter.next_frame() {
            if Kind::of(&frame) == Kind::Message {
                message(link, &mut to, &mut kept, &frame).await;
                continue;
            }
            if let Some(trigger) = link.answer(&frame) {
                let through = match trigger.action {
                    Action::CutAfter => Some(0),
                    Action::CutReply(n) => Some(n.min(frame.len())),
                    _ => None,
                };
                if let Some(through) = through {
                    let _ = to.write_all(&frame[..through]).await;
                    return cut(&trigger);
                }
                let since = link.releases();
                if trigger.action == Action::HoldReplyAlone {
                    kept.replies.get_or_insert_with(|| Held::empty(since));
                }
                trigger.fire();
                if trigger.action == Action::HoldReply {
                    link.released(since).await;
                }
            }
            match &mut kept.replies {
                Some(replies) => replies.bytes.extend_from_slice(&frame),
                None => deliver(link, &mut to, &frame).await,
            }
        }
        let more = tokio::select! {
            biased;
            late = kept.released(link) => {
                deliver(link, &mut to, &late).await;
                continue;
            }
            more = read(&mut from, &mut splitter) => more,
        };
        if !more {
            link.may_end(Way::Replies).await;
            return End::Upstream;
        }
        link.latency().await;
    }
}

/// What overtakes other frames, and what is overtaken.
#[derive(Default)]
struct Kept {
    replies: Option<Held>,
    messages: Option<Held>,
}

impl Kept {
    /// Waits until something is released, and returns it.
    async fn released(&mut self, link: &Link) -> Vec<u8> {
        for kept in [&mut self.replies, &mut self.messages] {
            if kept.as_ref().is_some_and(|it| link.releases() > it.since) {
                return kept.take().map_or(Vec::new(), |it| it.bytes);
            }
        }
        let both = [&self.replies, &self.messages];
        let Some(since) = both.into_iter().flatten().map(|it| it.since).min() else {
            return pending().await;
        };
        link.released(since).await;
        Vec::new() // the caller checks again
    }
}

/// A message from the server: lost, kept back or doubled, if a trigger says so.
async fn message(link: &Link, to: &mut WriteHalf<'_>, kept: &mut Kept, frame: &[u8]) {
    let Some(trigger) = link.shared.due(frame, Way::Replies) else {
        return deliver(link, to, frame).await;
    };
    if trigger.action == Action::HoldMessage {
        let since = link.releases();
        let held = kept.messages.get_or_insert_with(|| Held::empty(since));
        held.bytes.extend_from_slice(frame);
    }
    // Fires before anything is delivered: a test that has read the message may ask at once whether
    // this was done.
    trigger.fire();
    if trigger.action == Action::RepeatMessage {
        deliver(link, to, &frame.repeat(2)).await;
    }
}

/// Unless the wire is silent.
async fn deliver(link: &Link, to: &mut WriteHalf<'_>, bytes: &[u8]) {
    if link.may_pass(Way::Replies).await {
        // The other direction notices a client that has gone, and still has to forward what it sent
        // before.
        let _ = to.write_all(bytes).await;
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
    // The other direction notices a server that has gone.
    let _ = to.write_all(request).await;
}

/// Returns whether the client was still connected at the release.
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

/// Sends the held request, whose trigger is used up; the requests behind it go their normal way.
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
