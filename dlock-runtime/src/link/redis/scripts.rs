//! The Lua scripts (`lua` has their texts), and how to call one. This file decides
//! nothing about locks. Invariant: `all` lists every script, so that an error can be mapped to the
//! command on the line that it names.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value};

use super::native::Native;
use super::reads::Reads;
use crate::rules::lua;

macro_rules! scripts {
    ($($name:ident)*) => {
        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::with_text(lua::text(lua::$name)));)*

        /// All scripts.
        pub(super) fn all() -> Vec<&'static Script> {
            vec![$(&$name,)* &RELEASE_BY_DELEX, &RELEASE_BY_DELIFEQ]
        }
    };
}

scripts! {
    ACQUIRE SHARED_ACQUIRE ACQUIRE_ALL POLL RELEASE SHARED_RELEASE CANCEL DOWNGRADE COMBINED HEARTBEAT RENEW HOLDERS WRITE ONCE_ACQUIRE ONCE_RELEASE ONCE_CANCEL NOTE_RUN NODE QUORUM ACQUIRE_KEY POLL_KEY CANCEL_KEY DOWNGRADE_KEY CONFIRM_KEY DRAW RAISE MEMBERS RIGHTS
}

/// The same as [`RELEASE`], with the server's own command in its common case.
static RELEASE_BY_DELEX: LazyLock<Script> =
    LazyLock::new(|| RELEASE.deleting_by("redis.pcall('DELEX', KEYS[1], 'IFEQ', ARGV[1])"));
static RELEASE_BY_DELIFEQ: LazyLock<Script> =
    LazyLock::new(|| RELEASE.deleting_by("redis.pcall('DELIFEQ', KEYS[1], ARGV[1])"));

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
    let of_items: &Script = if said.contains(", node") {
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
pub(crate) struct Script {
    text: String,
    sha1: [String; 2],
}

impl Script {
    fn deleting_by(&self, compare_and_delete: &str) -> Self {
        Self::with_text(self.text.replace(lua::GET_AND_DEL, compare_and_delete))
    }

    fn with_text(text: String) -> Self {
        let hash = |reads: Reads| {
            redis::Script::new(&reads.in_script(&text))
                .get_hash()
                .to_owned()
        };
        let sha1 = [hash(Reads::Whole), hash(Reads::Beginning)];
        Self { text, sha1 }
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
