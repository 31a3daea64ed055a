//! The Lua scripts, each with the shared parts in front, and how to call one. This file decides
//! nothing about locks. Invariant: `all` lists every script, so that an error can be mapped to the
//! command on the line that it names.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value};

use super::native::Native;
use super::reads::Reads;

/// The common cases come first: a call that they complete defines no functions.
pub(super) static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    let fast_path = [TIMES, include_str!("lua/acquire_fast_path.lua")];
    let rest = [
        PRELUDE,
        VALUE,
        QUEUE,
        SET,
        ADMIT,
        GRANT,
        EXCLUSIVE,
        include_str!("lua/acquire.lua"),
    ];
    Script::of(fast_path.iter().chain(&rest))
});
pub(super) static ACQUIRE_ALL: LazyLock<Script> =
    LazyLock::new(|| Script::exclusive(include_str!("lua/acquire_all.lua")));
pub(super) static POLL: LazyLock<Script> = LazyLock::new(|| {
    Script::of(&[
        TIMES,
        PRELUDE,
        VALUE,
        QUEUE,
        SET,
        ADMIT,
        GRANT,
        include_str!("lua/poll.lua"),
    ])
});
static RELEASE: LazyLock<Script> = LazyLock::new(|| release_by(GET_AND_DEL));
static RELEASE_BY_DELEX: LazyLock<Script> =
    LazyLock::new(|| release_by("redis.pcall('DELEX', KEYS[1], 'IFEQ', ARGV[1])"));
static RELEASE_BY_DELIFEQ: LazyLock<Script> =
    LazyLock::new(|| release_by("redis.pcall('DELIFEQ', KEYS[1], ARGV[1])"));
pub(super) static CANCEL: LazyLock<Script> = LazyLock::new(|| {
    Script::of(&[
        include_str!("lua/cancel_fast_path.lua"),
        TIMES,
        PRELUDE,
        VALUE,
        QUEUE,
        SET,
        ADMIT,
        GRANT,
        EXCLUSIVE_RELEASE,
        include_str!("lua/cancel.lua"),
    ])
});
/// A batch of exclusive releases and acquires.
pub(super) static COMBINED: LazyLock<Script> = LazyLock::new(|| {
    let fast_path = [TIMES, PRELUDE, include_str!("lua/combined_fast_path.lua")];
    let rest = [
        VALUE,
        QUEUE,
        SET,
        ADMIT,
        GRANT,
        EXCLUSIVE_RELEASE,
        EXCLUSIVE,
        include_str!("lua/combined.lua"),
    ];
    Script::of(fast_path.iter().chain(&rest))
});
/// Renews leases of every kind.
pub(super) static RENEW: LazyLock<Script> = LazyLock::new(|| {
    let fast_path = [include_str!("lua/renew_fast_path.lua")];
    let rest = [
        TIMES,
        PRELUDE,
        VALUE,
        QUEUE,
        SET,
        ADMIT,
        GRANT,
        SHARED,
        include_str!("lua/renew.lua"),
    ];
    Script::of(fast_path.iter().chain(&rest))
});

pub(super) static WRITE: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[PRELUDE, VALUE, include_str!("lua/write.lua")]));

/// What a node of a quorum is asked.
pub(super) static NODE: LazyLock<Script> = LazyLock::new(|| {
    let fast_path = include_str!("lua/node_fast_path.lua");
    let keep = include_str!("lua/keep.lua");
    Script::of(&[fast_path, HINTS, keep, include_str!("lua/node.lua")])
});
/// The same about a lock of a kind with many holders.
pub(super) static NODE_SHARED: LazyLock<Script> =
    LazyLock::new(|| Script::shared(&[HINTS, include_str!("lua/node_shared.lua")].concat()));
/// Keeps what a node knows about its quorum.
pub(super) static QUORUM: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[include_str!("lua/quorum.lua")]));

/// Raises the epoch counter.
pub(super) static RAISE: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[include_str!("lua/raise.lua")]));

/// Reads a part of a set.
pub(super) static MEMBERS: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[include_str!("lua/members.lua")]));

/// Tries commands.
pub(super) static RIGHTS: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[include_str!("lua/rights.lua")]));

pub(super) static SHARED_ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::shared(include_str!("lua/shared_acquire.lua")));
pub(super) static SHARED_POLL: LazyLock<Script> =
    LazyLock::new(|| Script::shared(include_str!("lua/shared_poll.lua")));
pub(super) static SHARED_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::shared(include_str!("lua/shared_release.lua")));
pub(super) static SHARED_CANCEL: LazyLock<Script> =
    LazyLock::new(|| Script::shared(include_str!("lua/shared_cancel.lua")));
pub(super) static SHARED_DOWNGRADE: LazyLock<Script> =
    LazyLock::new(|| Script::shared(include_str!("lua/shared_downgrade.lua")));
/// Refreshes the heartbeats of waiters of every kind.
pub(super) static HEARTBEAT: LazyLock<Script> =
    LazyLock::new(|| Script::shared(include_str!("lua/heartbeat.lua")));
pub(super) static SHARED_HOLDERS: LazyLock<Script> =
    LazyLock::new(|| Script::shared(include_str!("lua/shared_holders.lua")));

/// About a lock's key alone, or its counter's.
pub(super) static ACQUIRE_KEY: LazyLock<Script> =
    LazyLock::new(|| Script::by_key(&[EXCLUSIVE, include_str!("lua/acquire_key.lua")]));
pub(super) static CANCEL_KEY: LazyLock<Script> =
    LazyLock::new(|| Script::by_key(&[EXCLUSIVE_RELEASE, include_str!("lua/cancel.lua")]));
pub(super) static POLL_KEY: LazyLock<Script> =
    LazyLock::new(|| Script::by_key(&[SHARED, include_str!("lua/poll_key.lua")]));
pub(super) static CONFIRM_KEY: LazyLock<Script> =
    LazyLock::new(|| Script::by_key(&[SHARED, include_str!("lua/confirm_key.lua")]));
pub(super) static SHARED_ACQUIRE_KEY: LazyLock<Script> =
    LazyLock::new(|| Script::by_key(&[SHARED, include_str!("lua/shared_acquire.lua")]));
pub(super) static SHARED_CANCEL_KEY: LazyLock<Script> =
    LazyLock::new(|| Script::by_key(&[SHARED, include_str!("lua/shared_cancel.lua")]));
pub(super) static SHARED_DOWNGRADE_KEY: LazyLock<Script> =
    LazyLock::new(|| Script::by_key(&[SHARED, include_str!("lua/shared_downgrade.lua")]));
pub(super) static DRAW: LazyLock<Script> =
    LazyLock::new(|| Script::of(&[PRELUDE, include_str!("lua/draw.lua")]));

const TIMES: &str = include_str!("lua/times.lua");
const PRELUDE: &str = include_str!("lua/prelude.lua");
const BY_KEY: &str = include_str!("lua/by_key.lua");
const VALUE: &str = include_str!("lua/value.lua");
const QUEUE: &str = include_str!("lua/queue.lua");
const SET: &str = include_str!("lua/set.lua");
const ADMIT: &str = include_str!("lua/admit.lua");
const GRANT: &str = include_str!("lua/grant.lua");
const EXCLUSIVE: &str = include_str!("lua/exclusive.lua");
const EXCLUSIVE_RELEASE: &str = concat!(
    include_str!("lua/keep.lua"),
    include_str!("lua/exclusive_release.lua")
);
const SHARED: &str = concat!(include_str!("lua/keep.lua"), include_str!("lua/shared.lua"));
const HINTS: &str = include_str!("lua/hints.lua");

/// The part of `release_fast_path.lua` that a native command replaces.
const GET_AND_DEL: &str = "redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])";

fn release_by(compare_and_delete: &str) -> Script {
    let fast_path =
        include_str!("lua/release_fast_path.lua").replace(GET_AND_DEL, compare_and_delete);
    let rest = [
        include_str!("lua/release_in_turn.lua"),
        PRELUDE,
        VALUE,
        QUEUE,
        SET,
        ADMIT,
        GRANT,
        EXCLUSIVE_RELEASE,
        include_str!("lua/release.lua"),
    ];
    Script::of([TIMES, &*fast_path].iter().chain(&rest))
}

/// All scripts.
pub(super) fn all() -> [&'static Script; 31] {
    [
        &ACQUIRE,
        &ACQUIRE_ALL,
        &POLL,
        &RELEASE,
        &RELEASE_BY_DELEX,
        &RELEASE_BY_DELIFEQ,
        &CANCEL,
        &COMBINED,
        &RENEW,
        &WRITE,
        &NODE,
        &NODE_SHARED,
        &QUORUM,
        &RAISE,
        &MEMBERS,
        &RIGHTS,
        &SHARED_ACQUIRE,
        &SHARED_POLL,
        &SHARED_RELEASE,
        &SHARED_CANCEL,
        &SHARED_DOWNGRADE,
        &SHARED_HOLDERS,
        &HEARTBEAT,
        &ACQUIRE_KEY,
        &CANCEL_KEY,
        &POLL_KEY,
        &CONFIRM_KEY,
        &SHARED_ACQUIRE_KEY,
        &SHARED_CANCEL_KEY,
        &SHARED_DOWNGRADE_KEY,
        &DRAW,
    ]
}

/// The commands on the line that a script's error names, if it names one: `… script: <hash>, on
/// @user_script:12.` (Redis 7), `… (call to f_<hash>): @user_script:12: …` (6.2). An error without
/// a hash comes from an item of [`COMBINED`], or of [`NODE`], which says so.
pub(super) fn commands_of_error(said: &str) -> Vec<&'static str> {
    let Some((_, behind)) = said.rsplit_once("@user_script:") else {
        return Vec::new();
    };
    let behind = behind.trim_start();
    let end = behind.find(|c: char| !c.is_ascii_digit());
    let line = behind.get(..end.unwrap_or(behind.len())).map(str::parse);
    let is_called = |hash: &String| said.contains(hash);
    let of_hash = all().into_iter().find(|it| it.sha1.iter().any(is_called));
    let of_items: &Script = if said.contains(", node, on @user_script:") {
        &NODE
    } else {
        &COMBINED
    };
    match line {
        Some(Ok(line)) => of_hash.unwrap_or(of_items).commands_in(line),
        _ => Vec::new(),
    }
}

/// The release of an exclusive lock, by the native command if there is one.
pub(super) fn release(native: Option<Native>) -> &'static Script {
    match native {
        None => &RELEASE,
        Some(Native::Delex) => &RELEASE_BY_DELEX,
        Some(Native::Delifeq) => &RELEASE_BY_DELIFEQ,
    }
}

/// A script, which reads strings as a whole, and the hashes by which the server knows it and the text
/// that reads beginnings. Of each line both call the same commands, but for that.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
    sha1: [String; 2],
}

impl Script {
    /// Joins the parts in this order.
    fn of<'a>(parts: impl IntoIterator<Item = &'a &'a str>) -> Self {
        let text: String = parts.into_iter().copied().collect();
        let hash = |reads: Reads| {
            redis::Script::new(&reads.in_script(&text))
                .get_hash()
                .to_owned()
        };
        let sha1 = [hash(Reads::Whole), hash(Reads::Beginning)];
        Self { text, sha1 }
    }

    /// A script of the exclusive lock.
    fn exclusive(operation: &str) -> Self {
        Self::of(&[
            TIMES,
            PRELUDE,
            VALUE,
            QUEUE,
            SET,
            ADMIT,
            GRANT,
            EXCLUSIVE_RELEASE,
            operation,
        ])
    }

    /// A script of the kinds with many holders.
    fn shared(operation: &str) -> Self {
        Self::of(&[
            TIMES, PRELUDE, VALUE, QUEUE, SET, ADMIT, GRANT, SHARED, operation,
        ])
    }

    /// A script about one key.
    fn by_key(operation: &[&str]) -> Self {
        let parts = [TIMES, PRELUDE, BY_KEY, VALUE, SET, ADMIT];
        Self::of(parts.iter().chain(operation))
    }

    /// The commands on a line of the script; lines count from 1.
    fn commands_in(&self, line: usize) -> Vec<&str> {
        let line = line.checked_sub(1).and_then(|at| self.text.lines().nth(at));
        let parts = line.unwrap_or_default().split("('").skip(1);
        let names = parts.filter_map(|rest| rest.split_once('\'').map(|(name, _)| name));
        let is_command = |name: &&str| name.bytes().all(|it| it.is_ascii_uppercase());
        names.filter(is_command).collect()
    }

    pub(super) fn text(&self, reads: Reads) -> String {
        reads.in_script(&self.text)
    }

    /// Begins a call, with capacity for this many more words and bytes.
    pub(super) fn called(&self, by: CallBy, words: usize, bytes: usize) -> Cmd {
        let [whole, beginning] = &self.sha1;
        let (how, what) = match by {
            CallBy::Hash(Reads::Whole) => ("EVALSHA", whole),
            CallBy::Hash(Reads::Beginning) => ("EVALSHA", beginning),
            CallBy::Text(reads) => return self.called_by_text(reads, words, bytes),
        };
        begun(how, what, words, bytes)
    }

    #[cold]
    fn called_by_text(&self, reads: Reads, words: usize, bytes: usize) -> Cmd {
        begun("EVAL", &self.text(reads), words, bytes)
    }

    /// A call with these keys and arguments.
    pub(super) fn call(&self, by: CallBy, keys: &[&str], arguments: &[impl ToRedisArgs]) -> Cmd {
        let mut command = self.called(by, 1 + keys.len() + arguments.len(), 0);
        command.arg(keys.len()).arg(keys).arg(arguments);
        command
    }

    /// Calls the script by hash; if the server does not know the hash, by text. The unknown hash
    /// ran nothing, so the command is not executed twice.
    pub(super) async fn run(
        connection: &mut MultiplexedConnection,
        reads: Reads,
        call: impl Fn(CallBy) -> Cmd,
    ) -> Result<Value, RedisError> {
        let mut by = CallBy::Hash(reads); // one await for both calls: a future reserves room for each await
        loop {
            match (call(by).query_async(connection).await, by) {
                (Err(error), CallBy::Hash(_)) if is_unknown(&error) => by = CallBy::Text(reads),
                (answer, _) => return answer,
            }
        }
    }
}

/// A command with its first two words, and capacity for this many more words and bytes.
fn begun(how: &str, what: &str, words: usize, bytes: usize) -> Cmd {
    let mut command = Cmd::with_capacity(words + 2, bytes + how.len() + what.len());
    command.arg(how).arg(what);
    command
}

/// How a script is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallBy {
    Hash(Reads),
    Text(Reads),
}

impl CallBy {
    /// In which order a script is called.
    pub(super) fn each(reads: Reads) -> [Self; 2] {
        [Self::Hash(reads), Self::Text(reads)]
    }
}

/// The same, of the answer to one of several commands.
pub(super) fn is_unknown_by(answer: &Value) -> bool {
    match answer {
        Value::ServerError(error) => is_unknown(&RedisError::from(error.clone())),
        _ => false,
    }
}

/// Whether the server does not know a script by its hash.
pub(super) fn is_unknown(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
