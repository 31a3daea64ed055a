//! The texts of the Lua scripts, put together from the sections of the files beside it. It knows nothing
//! of a server.
//!
//! A section begins with a line `--@ name`; `prelude.lua` says why there are sections. The common
//! cases of exclusive locks come first, so that a call which they complete defines few functions; what
//! follows serves every kind. All behind a bar is one function: inside it the variables in front of the
//! bar cost nothing, while beside it Lua searches for each variable that a function uses.

/// Each script by its sections in the order of need: `file`, or `file.section`.
macro_rules! scripts {
    ($($(#[$about:meta])* $name:ident = [$($sections:expr),*];)*) => {
        $($(#[$about])* pub(crate) const $name: &[&str] = &[$($sections),*];)*

        /// All scripts by their names.
        #[allow(dead_code, reason = "for tests and benchmarks, which know a script by its name")]
        pub(crate) const ALL: &[(&str, &[&str])] = &[$((stringify!($name), $name)),*];
    };
}

scripts! {
    /// Takes an exclusive lock.
    ACQUIRE = [
        "prelude.time prelude.lock prelude.state acquire.told prelude.draw prelude.digits acquire.free queue.beat queue.enter acquire.waits",
        HOLDERS_OF_LOCK, "grant.publish", WAITERS, ACQUIRING
    ];
    /// The same of a kind with many holders.
    SHARED_ACQUIRE = [
        PRELUDE, "queue.beat queue.enter",
        HOLDERS_OF_LOCK, "grant.publish", WAITERS, ACQUIRING
    ];
    /// Takes several exclusive locks.
    ACQUIRE_ALL = [
        PRELUDE, "queue.beat",
        HOLDERS_OF_LOCK, "grant.publish", WAITERS, RELEASING, "acquire_all"
    ];
    POLL = [
        PRELUDE, "queue.beat",
        HOLDERS_OF_LOCK, "grant.publish", WAITERS, "lock.yours poll"
    ];
    RELEASE = [
        "release.fast", PRELUDE, "grant.publish release.turn queue.beat",
        HOLDERS_OF_LOCK, WAITERS, RELEASING, "release.script"
    ];
    SHARED_RELEASE = [
        "release.no_common_case", PRELUDE, "grant.publish queue.beat",
        HOLDERS_OF_LOCK, WAITERS, RELEASING, "release.script"
    ];
    CANCEL = [
        "prelude.time prelude.lock prelude.state queue.leave cancel.fast prelude.draw prelude.digits grant.publish queue.beat",
        HOLDERS_OF_LOCK, "queue.waiters record.due grant.next", RELEASING, "cancel.script"
    ];
    DOWNGRADE = [
        PRELUDE, "grant.publish queue.beat",
        HOLDERS_OF_LOCK, WAITERS, "grant.after downgrade.one downgrade.script"
    ];
    /// A batch of exclusive releases and acquires.
    COMBINED = [
        PRELUDE, "combined.fast combined.refused grant.publish queue.beat queue.enter",
        HOLDERS_OF_LOCK, WAITERS, RELEASING, "lock.kinds lock.yours acquire.one combined.script"
    ];
    /// Refreshes the heartbeats of waiters.
    HEARTBEAT = [
        PRELUDE, "queue.beat",
        HOLDERS_OF_LOCK, "queue.leave queue.waiters heartbeat"
    ];
    /// Renews leases.
    RENEW = ["renew.fast", PRELUDE, HOLDERS_OF_LOCK, "renew.script"];
    HOLDERS = [PRELUDE, HOLDERS_OF_LOCK, "holders.holders"];
    WRITE = ["prelude.time prelude.lock prelude.state value write"];

    /// Of a job that runs once per period.
    ONCE_ACQUIRE = [
        PRELUDE, "queue.beat queue.enter",
        HOLDERS_OF_LOCK, "grant.publish", WAITERS, "lock.kinds lock.yours acquire.one acquire.once"
    ];
    ONCE_RELEASE = [
        "release.no_common_case", PRELUDE, "grant.publish queue.beat",
        HOLDERS_OF_LOCK, WAITERS, ENDING_A_RUN, "release.script"
    ];
    ONCE_CANCEL = [
        PRELUDE, "grant.publish queue.beat", HOLDERS_OF_LOCK, WAITERS, ENDING_A_RUN, "cancel.script"
    ];
    /// Records before its body that a holder runs.
    NOTE_RUN = ["prelude.time prelude.lock prelude.state value record.run record.script"];

    /// What a node of a quorum is asked.
    NODE = [
        "prelude.time prelude.lock node.taken_back prelude.draw node.free prelude.state prelude.digits node.hints node.outvoted node.batch combined.refused",
        "| value no_queue set lock.holders lock.kinds", RELEASING, "downgrade.one node.script"
    ];
    /// Keeps what a node knows about its quorum.
    QUORUM = ["quorum"];

    /// About a lock's key alone, or its counter's.
    ACQUIRE_KEY = [NO_WAITERS, ACQUIRING];
    POLL_KEY = [NO_WAITERS, "lock.yours poll"];
    CANCEL_KEY = [NO_WAITERS, RELEASING, "cancel.script"];
    DOWNGRADE_KEY = [NO_WAITERS, "grant.after downgrade.one downgrade.script"];
    CONFIRM_KEY = [NO_WAITERS, "holders.confirm"];
    DRAW = [PRELUDE, "counter.draw"];
    RAISE = ["counter.raise"];

    /// Reads a part of a set.
    MEMBERS = ["members"];
    /// Tries commands.
    RIGHTS = ["rights"];
}

/// What most scripts begin with.
const PRELUDE: &str = "prelude.time prelude.lock prelude.state prelude.draw prelude.digits";
/// What is stored at a lock.
const HOLDERS_OF_LOCK: &str = "| value set lock.holders";
/// Who waits for it, and the grant to them.
const WAITERS: &str = "queue.leave queue.waiters record.due grant.next";
/// In place of both where nobody queues.
const NO_WAITERS: &str = "prelude.time prelude.lock prelude.state prelude.draw prelude.digits | value no_queue set lock.holders";
const ACQUIRING: &str = "lock.kinds lock.yours acquire.one acquire.script";
const RELEASING: &str = "grant.after record.no_run release.one";
const ENDING_A_RUN: &str = "grant.after record.run record.note_run release.one";

/// The part of `release.fast` that a native command replaces.
pub(crate) const GET_AND_DEL: &str =
    "redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])";

/// The same text, which reads only the beginning of what may be a stranger's: the strings at a lock's key
/// and at its record.
pub(crate) fn reading_beginnings(text: &str) -> String {
    ["lock", "record"]
        .iter()
        .fold(text.to_owned(), |text, key| {
            let beginning = format!("'GETRANGE', {key}, '0', '4096')");
            text.replace(&format!("'GET', {key})"), &beginning)
        })
}

/// Joins the sections of a script.
pub(crate) fn text(sections: &[&str]) -> String {
    let names = || sections.iter().flat_map(|it| it.split(' '));
    let begin = "return (function()\n";
    let each = names().map(|name| if name == "|" { begin } else { section(name) });
    let mut text: String = each.collect();
    if names().any(|name| name == "|") {
        text.push_str("end)()\n");
    }
    text
}

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!($name, ".lua")))),*]
    };
}

static FILES: [(&str, &str); 24] = files! {
    "acquire" "acquire_all" "cancel" "combined" "counter" "downgrade" "grant" "heartbeat" "holders"
    "lock" "members" "no_queue" "node" "poll" "prelude" "queue" "quorum" "record" "release" "renew"
    "rights" "set" "value" "write"
};

/// The names of all sections, and of the files without any.
#[cfg(test)]
pub(crate) fn sections() -> Vec<String> {
    let of_file = |(file, text): &(&str, &str)| {
        let sections = text.split("--@ ").skip(1);
        let names = sections.map(|it| it.lines().next().unwrap_or_default());
        let mut names: Vec<_> = names.map(|it| format!("{file}.{it}")).collect();
        if names.is_empty() {
            names.push((*file).to_owned());
        }
        names
    };
    FILES.iter().flat_map(of_file).collect()
}

/// The text of a section, or of a file that has none; empty if there is no such section, which a test
/// would find.
pub(crate) fn section(name: &str) -> &'static str {
    let (file, section) = name.split_once('.').unwrap_or((name, ""));
    let text = FILES.iter().find(|(it, _)| *it == file);
    let text = text.map_or("", |(_, text)| text);
    if section.is_empty() {
        return text;
    }
    let mut sections = text
        .split("--@ ")
        .skip(1)
        .filter_map(|it| it.split_once('\n'));
    let found = sections.find(|(it, _)| *it == section);
    found.map_or("", |(_, text)| text)
}
