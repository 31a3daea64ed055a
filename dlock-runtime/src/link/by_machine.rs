//! What the server's machine answers to the commands of a link, for servers that run it in this process.
//! It has no state of its own.

use super::{LinkCommand, LinkReply};
use crate::rules::commands::Polled;
use crate::rules::{Publish, Server};

/// `None`: the command is not about locks and records alone.
pub(crate) fn by_machine(
    command: LinkCommand<'_>,
    server: &mut Server,
    time: u64,
    publish: &mut dyn Publish,
) -> Option<LinkReply> {
    Some(match command {
        LinkCommand::AcquireAll(commands) => server.acquire_all(commands, time, publish).into(),
        LinkCommand::Poll(claim) => server.poll(claim, time, publish).into(),
        LinkCommand::Heartbeat(_) => None::<Polled>.into(),
        LinkCommand::Cancel {
            claim,
            keep,
            not_after,
        } => server.cancel(claim, keep, not_after, time, publish).into(),
        LinkCommand::Renew(items) => {
            let renewed = items.iter().map(|item| server.renew(item, time));
            renewed.collect::<Vec<_>>().into()
        }
        LinkCommand::Downgrade { claim, ttl } => server.downgrade(claim, ttl, time, publish).into(),
        LinkCommand::Vote(ballot) => server.vote(ballot, time, publish).into(),
        LinkCommand::Adopt { claim, epoch } => server.adopt(claim, epoch, time).into(),
        LinkCommand::Holds(claim) => server.holds(claim, time).into(),
        LinkCommand::NoteRun { claim, run } => server.note_run(claim, run, time).into(),
        LinkCommand::LastRun(key) => server.last_run(key, time).into(),
        LinkCommand::ClearRecord(key) => server.clear_record(key, time).into(),
        LinkCommand::Read(key) => server.read(key, time).into(),
        LinkCommand::Inspect { keys, part } => {
            let all = keys.iter().map(|key| server.inspect(key, part, time));
            all.collect::<Vec<_>>().into()
        }
        LinkCommand::Ping => ().into(),
        LinkCommand::Write(..)
        | LinkCommand::Scan { .. }
        | LinkCommand::TellEvicted(_)
        | LinkCommand::Check => return None,
    })
}
