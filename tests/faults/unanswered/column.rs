//! The columns: a topology each, which request is which there, what it lacks, and what it promises
//! less.

use std::ops::Range;
use std::time::Duration;

use dlock_harness::resp::words;
use dlock_harness::{Action, Matcher};
use dlock_tests::served::QUORUM_TTL;

use super::row::{Call, Frame, Row, Step};
use crate::lab::{CAP, LONG, SOON, calls, requests, text};

/// More bytes than any request or reply has.
pub(super) const ALL: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    OneServer,
    /// It has just forgotten all scripts.
    ByText,
    WithoutScripts,
    Sharded,
    Sentinel,
    Cluster,
    /// The fault is at most nodes.
    Quorum,
    /// The fault is at one node: calls succeed by the others.
    Minority,
}

use Column::{ByText, Cluster, Minority, OneServer, Quorum, Sentinel, Sharded, WithoutScripts};

impl Column {
    pub(super) fn topology(self) -> &'static str {
        match self {
            OneServer | ByText | WithoutScripts => "",
            Sharded => "sharded",
            Sentinel => "sentinel",
            Cluster => "cluster",
            Quorum | Minority => "quorum",
        }
    }

    pub(super) fn is_one_server(self) -> bool {
        matches!(self, OneServer | ByText | WithoutScripts)
    }

    pub(super) fn user(self) -> &'static str {
        match self {
            WithoutScripts => "plain",
            _ => "dlock",
        }
    }

    /// Whether each operation is a script of its own, so that a record shows which is which.
    pub(super) fn has_one_script_each(self) -> bool {
        !matches!(self, WithoutScripts | Quorum | Minority)
    }

    pub(super) fn has(self, row: &Row) -> bool {
        match self {
            // The second request of a call that is sent by its hash first is the first by its text.
            ByText => row.then.is_empty(),
            WithoutScripts | Quorum | Minority if row.call == Call::Write => false,
            // Each call has a transaction of its own.
            WithoutScripts => {
                row.callers == 1
                    && row.at_clean_ups.is_none()
                    && !row.is_renewed
                    && !row.then.contains(&Step::Next)
            }
            // The renewal ends with the others' answers.
            Minority if row.call == Call::Release && row.is_renewed => row.at_release,
            // There a release and a clean-up are the same request.
            Quorum | Minority => !row.then.contains(&Step::Next),
            _ => true,
        }
    }

    pub(super) fn has_kind(self, kind: &str) -> bool {
        match self {
            WithoutScripts => kind == "x",
            Quorum | Minority => kind != "fair" && !kind.starts_with('p'),
            _ => true,
        }
    }

    /// How much of a request arrives means something for one text alone.
    pub(super) fn has_fault(self, fault: Action) -> bool {
        match fault {
            Action::CutInside(_) => matches!(self, OneServer | WithoutScripts),
            Action::CutReply(_) => matches!(self, OneServer | WithoutScripts | ByText),
            _ => true,
        }
    }

    /// Whether a reply that was cut there may be whole: those of a transaction are short.
    pub(super) fn is_whole(self, fault: Action) -> bool {
        match fault {
            Action::CutReply(bytes) => bytes == ALL || self == WithoutScripts,
            _ => false,
        }
    }

    /// Without scripts an acquire ends with its lease, but has no last moment.
    pub(super) fn creates_nothing(self, row: &Row) -> bool {
        row.creates_nothing && (self != WithoutScripts || row.lease.is_some())
    }

    /// A lease that no test waits out.
    pub(super) fn lease(self) -> Duration {
        match self {
            Quorum | Minority => QUORUM_TTL,
            _ => LONG,
        }
    }

    /// A clean-up is done within this time; without scripts it looks again each second.
    pub(super) fn soon(self) -> Duration {
        match self {
            WithoutScripts => CAP,
            Quorum | Minority => QUORUM_TTL / 2,
            _ => SOON,
        }
    }

    /// The requests that are meant; without scripts a call has several.
    pub(super) fn requests(self, row: &Row, frame: Frame, item: &Item) -> Vec<Matcher> {
        let about = |command| Matcher::command(command).containing(item.on_server());
        let key = item.key.clone();
        let runs = matches!(row.call, Call::Run | Call::RunInBackground);
        let behind = if runs { 2 } else { 1 }; // the acquire has a transaction too
        match (self, frame) {
            (WithoutScripts, Frame::Acquire) => vec![
                Matcher::command("MULTI"),
                about("SET"),
                Matcher::command("EXEC"),
            ],
            (_, Frame::Read) => vec![about("GETRANGE")],
            (WithoutScripts, Frame::Renew) => vec![
                about("WATCH"),
                Matcher::command("MULTI"),
                about("PEXPIRE"),
                Matcher::command("EXEC"),
            ],
            (WithoutScripts, _) => vec![
                about("WATCH"),
                Matcher::command("MULTI").nth(behind),
                about("DEL"),
                Matcher::command("EXEC").nth(behind),
            ],
            (Quorum | Minority, _) if frame != Frame::Renew => {
                vec![Matcher::when(move |it| asks_a_node(it, frame, &key))]
            }
            (_, Frame::Renew) => vec![self.named("renew").containing(item.on_server())],
            (_, Frame::Batch) => vec![self.named("combined")],
            _ => {
                let requests = self.named(operation(frame, item.kind));
                vec![requests.containing(item.on_server())]
            }
        }
    }

    /// Which of the requests of a call are met, each in turn. With further steps, of a transaction
    /// only its begin, or the reply to its end.
    pub(super) fn met(self, row: &Row, fault: Action) -> Range<usize> {
        let all = self.requests(row, row.frame(), &Item::new("x", 0)).len();
        match fault {
            _ if row.then.is_empty() => 0..all,
            Action::HoldReply => all - 1..all,
            _ => 0..1,
        }
    }

    fn named(self, operation: &str) -> Matcher {
        match self {
            ByText => Matcher::command("EVAL").containing(text(operation)),
            _ => requests(operation),
        }
    }

    /// Whether a line of `MONITOR` is such a request about the item.
    pub(super) fn shows(self, line: &str, frame: Frame, item: &Item) -> bool {
        let is_it = match self {
            WithoutScripts if frame == Frame::Acquire => line.contains("\"SET\" \"lock:"),
            WithoutScripts => line.contains("\"ZREM\" \"lock:@w"),
            Quorum | Minority => letters(frame)
                .iter()
                .any(|it| line.contains(&format!("\"{}\" \"1\"", char::from(*it)))),
            _ => calls(line, operation(frame, item.kind)),
        };
        is_it && line.contains(&item.key)
    }
}

fn operation(frame: Frame, kind: &str) -> &'static str {
    let is_exclusive = matches!(kind, "x" | "fair");
    match frame {
        Frame::Acquire if is_exclusive => "acquire",
        Frame::Acquire => "shared_acquire",
        Frame::Release if is_exclusive => "release",
        Frame::Release => "shared_release",
        Frame::Renew => "renew",
        Frame::Write => "write",
        Frame::Read => panic!("no script reads"),
        Frame::AcquireAll => "acquire_all",
        Frame::Cancel => "cancel",
        Frame::Batch => "combined",
    }
}

/// The letters by which a node's script is told what to do, also of kinds with many holders.
fn letters(frame: Frame) -> &'static [u8] {
    match frame {
        Frame::Acquire | Frame::AcquireAll => b"vV",
        Frame::Release | Frame::Cancel | Frame::Renew => b"bB",
        Frame::Read | Frame::Write => b"",
        Frame::Batch => b"vb",
    }
}

/// Whether a request to a node is such a one about the item, or about more than one. Behind its
/// keys and the namespace stand the number of its items and the first item's letter.
fn asks_a_node(request: &[u8], frame: Frame, key: &str) -> bool {
    let words = words(request);
    if !words.first().is_some_and(|it| it.starts_with(b"EVAL")) {
        return false;
    }
    let keys = words
        .get(2)
        .and_then(|it| str::from_utf8(it).ok()?.parse().ok());
    let arguments = keys.and_then(|keys: usize| words.get(keys + 3..));
    let Some([_, items, letter, ..]) = arguments else {
        return false;
    };
    let is_meant = matches!(letter[..], [one] if letters(frame).contains(&one));
    let about = |it: &[u8]| it.windows(key.len()).any(|part| part == key.as_bytes());
    is_meant && (frame == Frame::Batch) != (*items == b"1") && words.iter().any(|it| about(it))
}

/// What a case locks; another key for each, in one slot of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) kind: &'static str,
    pub(super) key: String,
}

impl Item {
    pub(super) fn new(kind: &'static str, case: usize) -> Self {
        let key = format!("{SLOT}:{case:03}");
        Self { kind, key }
    }

    /// Its key on the server.
    pub(super) fn on_server(&self) -> String {
        format!("lock:{}", self.key)
    }

    /// What its holder writes, beside it.
    pub(super) fn data(&self) -> String {
        format!("{}:data", self.key)
    }
}

/// Where all items are.
pub(super) const SLOT: &str = "{item}";
