//! Does a step by the link, and writes what it answers. `operation key entry …`; the head of the
//! recording lists the operations. Several of them with commas are one command.

use std::time::Duration;

use tokio::time::Instant;

use super::masks;
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::batcher::HeartbeatPace;
use crate::link::redis::link::batcher::OwnedCommand;
use crate::link::redis::reply::ItemReply;
use crate::link::redis::tests::lab::{CAP, HOUR, seconds};
use crate::rules::ballots::{Adopted, Ballot, Vote};
use crate::rules::commands::{
    Acquire, Acquired, AcquiredAll, Busy, Cancelled, Claim, GivenBack, Keep, Left, Polled, Renewal,
};
use crate::values::entry;
use crate::values::ttl::Ttl;

/// One operation, at the server's time `now`.
pub(super) struct Operation {
    words: Vec<String>,
    /// The entry of the third word.
    value: String,
    now: u64,
}

impl Operation {
    /// `entry` tells the entry that a name stands for.
    pub(super) fn read(text: &str, now: u64, entry: impl Fn(&str) -> String) -> Self {
        let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        let value = entry(&format!("<{}>", words[2]));
        Self { words, value, now }
    }

    fn says(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    fn after(&self, name: &str) -> Option<Duration> {
        let value = self.words.iter().find_map(|it| it.strip_prefix(name))?;
        Some(Duration::from_secs(value.parse().unwrap()))
    }

    fn ttl(&self) -> Ttl {
        seconds(self.number())
    }

    fn number(&self) -> u64 {
        self.words[3].parse().unwrap()
    }

    fn claim(&self) -> Claim {
        Claim {
            is_once: false,
            key: self.words[1].as_str().into(),
            value: self.value.as_str().into(),
            queues: !self.says("once"),
        }
    }

    fn lease(&self) -> Ttl {
        let lease = entry::read(&self.value).map(|entry| entry.lease);
        lease.map_or(seconds(30), |it| Ttl::new(it).unwrap())
    }

    fn not_after(&self) -> u64 {
        if self.says("late") {
            self.now - HOUR
        } else {
            self.now + HOUR
        }
    }

    fn keep(&self) -> Keep {
        let keep = self.after("keep=");
        keep.map_or(Keep::NOT, |it| Keep::from(self.now, it))
    }

    fn acquire(&self) -> Acquire {
        Acquire {
            claim: self.claim(),
            lease: self.lease(),
            not_after: self.not_after(),
            repair_missing_ttl: self.after("repair="),
        }
    }

    fn ballot(&self) -> Ballot {
        let address = match self {
            it if it.says("once") || it.says("asks") => "",
            it if it.says("mute") => ";lock:@grant:nobody",
            _ => ";lock:@grant:heard",
        };
        Ballot {
            claim: self.claim(),
            lease: self.lease(),
            not_after: self.not_after(),
            proposal: self.number(),
            hint_to: address.into(),
        }
    }

    fn renewal(&self) -> Renewal {
        Renewal {
            claim: self.claim(),
            ttl: self.ttl(),
        }
    }

    /// As an item of a batch.
    fn item(&self) -> OwnedCommand {
        let (claim, keep) = (self.claim(), self.keep());
        match &*self.words[0] {
            "acquire" => OwnedCommand::Acquire(self.acquire()),
            "release" => OwnedCommand::Release { claim, keep },
            "vote" => OwnedCommand::Vote(self.ballot()),
            "adopt" => {
                let epoch = self.number();
                OwnedCommand::Adopt { claim, epoch }
            }
            "take_back" => OwnedCommand::TakeBack { claim, keep },
            other => panic!("no batch has a {other:?}"),
        }
    }

    /// What an item of a batch was answered.
    fn read_item(&self, reply: ItemReply) -> String {
        match &*self.words[0] {
            "acquire" => told(reply.acquired(), acquired),
            "release" => told(reply.given_back(), |it| given_back(it.answer)),
            "vote" => told(reply.of_node().and_then(|it| it.vote(self.number())), vote),
            "adopt" => told(reply.of_node().and_then(|it| it.adopted()), adopted),
            _ => told(reply.of_node().and_then(|it| it.taken_back(0)), cancelled),
        }
    }
}

pub(super) async fn answer(link: &RedisLink, all: &[Operation], is_node: bool) -> String {
    let (one, claim, keep) = (&all[0], all[0].claim(), all[0].keep());
    let until = Instant::now() + CAP;
    match &*one.words[0] {
        "all" => {
            let all: Vec<_> = all.iter().map(Operation::acquire).collect();
            told(link.acquire_all(&all, CAP).await, acquired_all)
        }
        "renew" => {
            let all: Vec<_> = all.iter().map(Operation::renewal).collect();
            told(link.renew(&all, CAP).await, |it| format!("{it:?}"))
        }
        "heartbeat" => heartbeats(link, all.iter().map(Operation::claim).collect()).await,
        _ if all.len() > 1 => batch(link, all, is_node).await,
        "acquire" => told(link.acquire(&one.acquire(), CAP).await, acquired),
        "poll" => told(link.poll(&claim, CAP).await, polled),
        "release" => told(link.release(&claim, keep, CAP).await, given_back),
        "cancel" => {
            let not_after = if one.says("open") { one.not_after() } else { 0 };
            told(link.cancel(&claim, keep, not_after, CAP).await, cancelled)
        }
        "downgrade" => told(link.downgrade(&claim, one.ttl(), CAP).await, yes),
        "holds" => told(link.holds(&claim, CAP).await, yes),
        "vote" => told(link.vote(&one.ballot(), CAP).await, vote),
        "adopt" => told(link.adopt(&claim, one.number(), CAP).await, adopted),
        "take_back" => told(link.take_back(&claim, keep, 0, CAP).await, cancelled),
        "acquire_key" => told(link.acquire_by_key(&one.acquire(), until).await, acquired),
        "poll_key" => told(link.poll_by_key(&claim, until).await, polled),
        "release_key" => told(link.release_by_key(&claim, keep, until).await, given_back),
        "cancel_key" => {
            let times = (keep, 0);
            told(link.cancel_by_key(&claim, times, until).await, cancelled)
        }
        "downgrade_key" => told(link.downgrade_by_key(&claim, one.ttl(), until).await, yes),
        other => panic!("no operation {other:?}"),
    }
}

async fn heartbeats(link: &RedisLink, claims: Vec<Claim>) -> String {
    let (window, most) = (CAP, claims.len());
    let heartbeats = link.heartbeats(HeartbeatPace { window, most });
    let answers = heartbeats.beat_together(claims, CAP).await.into_iter();
    let waits = |it: Option<Polled>| it.map_or("has to poll".to_owned(), polled);
    let answers = answers.map(|it| told(it, waits));
    answers.collect::<Vec<_>>().join("; ")
}

async fn batch(link: &RedisLink, all: &[Operation], is_node: bool) -> String {
    let batcher = if is_node {
        link.node_batcher().clone()
    } else {
        link.batcher(all.len())
    };
    let items = all.iter().map(Operation::item).collect();
    let answers = batcher.ask_together(items, CAP).await.into_iter().zip(all);
    let answers = answers.map(|(answer, it)| match answer.expect("an answer") {
        Ok(reply) => it.read_item(reply),
        Err(error) => refused(&error),
    });
    answers.collect::<Vec<_>>().join("; ")
}

fn told<T>(answer: Result<T, CommandError>, words: impl Fn(T) -> String) -> String {
    answer.map_or_else(|error| refused(&error), words)
}

fn refused(error: &CommandError) -> String {
    match error {
        CommandError::Refused(refusal, _) => format!("refused: {refusal:?}"),
        other => panic!("{other:?}"),
    }
}

fn acquired(answer: Acquired) -> String {
    match answer {
        Acquired::Granted { epoch, .. } => format!("granted {epoch}"),
        Acquired::Yours { epoch, left, .. } => format!("yours {epoch} for {}", masks::left(left)),
        Acquired::Busy(it) => format!("busy: {}", busy(&it)),
        Acquired::Queued(it) => format!("queued: {}", busy(&it)),
        Acquired::Late { .. } => "late".to_owned(),
        Acquired::WrongKind { there, .. } => format!("another kind: {there}"),
        Acquired::NotDue(it) => format!("not due for {}: {}", masks::left(it.left), it.record),
        Acquired::NoQuorum(_) => panic!("one server is no quorum"),
    }
}

/// Who is in the way of several locks was not told at commit 274d16ac.
fn acquired_all(answer: AcquiredAll) -> String {
    match answer {
        AcquiredAll::All { epochs, left, .. } => {
            let left = left.map_or(String::new(), |it| format!(" for {}", masks::left(it)));
            format!("all {epochs:?}{left}")
        }
        AcquiredAll::Not { at, .. } => format!("none, because of {at}"),
        AcquiredAll::Late { .. } => "late".to_owned(),
    }
}

fn polled(answer: Polled) -> String {
    match answer {
        Polled::Yours { epoch, left, .. } => format!("yours {epoch} for {}", masks::left(left)),
        Polled::Queued(it) => format!("queued: {}", busy(&it)),
        Polled::Gone { .. } => "gone".to_owned(),
        Polled::NotDue(it) => format!("not due for {}: {}", masks::left(it.left), it.record),
    }
}

fn busy(busy: &Busy) -> String {
    let left = match busy.left {
        Left::For(left) => masks::left(left),
        Left::Endless => "endless".to_owned(),
    };
    format!("{left}, {}", busy.value)
}

fn vote(answer: Vote) -> String {
    match answer {
        Vote::Granted { epoch, .. } => format!("granted {epoch}"),
        Vote::Busy(it) => {
            let (last, rank) = (it.last_epoch, it.rank);
            format!("busy: {}, last epoch {last}, rank {rank}", busy(&it.busy))
        }
        Vote::Late { .. } => "late".to_owned(),
        Vote::WrongKind { there, .. } => format!("another kind: {there}"),
    }
}

fn given_back(answer: GivenBack) -> String {
    format!("{}, rest {}", found(answer.found), answer.rest)
}

fn cancelled(answer: Cancelled) -> String {
    let open = if answer.conclusive {
        ""
    } else {
        ", may still come"
    };
    format!("{}, rest {}{open}", found(answer.found), answer.rest)
}

fn found(found: bool) -> &'static str {
    if found { "found" } else { "not found" }
}

fn adopted(answer: Adopted) -> String {
    format!("{answer:?}")
}

fn yes(answer: bool) -> String {
    answer.to_string()
}
