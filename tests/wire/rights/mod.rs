//! The rights that the pages list: enough for all that a lock does, and each of them is needed.
//!
//! `calls` makes everything that a lock does, while a right is missing; here stands where that is
//! done, and what must come of it. One server runs every row with and without scripts. The others
//! run one row, and with `DLOCK_TEST_ALL_CASES` (`tests/run.sh --rest`) all. `steps` tells, on one
//! server, at which call exactly each right is missed.

mod calls;
mod steps;

use std::collections::BTreeSet;
use std::error::Error as _;
use std::time::Duration;
use std::{iter, slice};

use dlock_runtime::{LockError, Refusal};
use dlock_tests::served::{QUORUM_TTL, documented_node_rules, documented_rules};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::user::{CAP, Lab, denied};
use calls::Calls;

/// Where a user's rights are missing, and what that means there.
#[derive(Debug)]
struct Column {
    topology: &'static str,
    user: &'static str,
    /// Without these, calls cost more; and of the two that read a string, one takes the other's
    /// place.
    quiet: &'static [&'static str],
    /// All that there are.
    kinds: &'static [&'static str],
    /// Those under which each right is taken away.
    denied_kinds: &'static [&'static str],
    /// Those of the user's rights that are taken away in each run.
    always: &'static [&'static str],
    /// A lease that no test waits out, and one that is lost unless it is renewed meanwhile.
    leases: [Duration; 2],
}

const SCRIPTS: Column = Column {
    topology: "",
    user: "dlock",
    quiet: &[
        "+get",
        "+getrange",
        "+command|info",
        "+info",
        "+mget",
        "+exists",
        "+zmscore",
        "+publish",
        "+subscribe",
        "&lock:@grant:*",
    ],
    kinds: &["x", "fair", "o", "r", "w", "p:3/3", "o:a"],
    denied_kinds: &["x", "p:1/1"],
    always: &["+set"],
    leases: [Duration::from_secs(60), Duration::from_secs(2)],
};

const TRANSACTIONS: Column = Column {
    user: "plain",
    quiet: &["+get", "+command|info", "+info", "+unwatch", "+zcard"],
    kinds: &["x", "o"],
    denied_kinds: &["x"],
    ..SCRIPTS
};

/// Of independent nodes, at all of them. Nobody waits until a lease of theirs was renewed.
const NODES: Column = Column {
    topology: "quorum",
    quiet: &[
        "+command|info",
        "+getrange",
        "+mget",
        "+exists",
        "+zmscore",
        "+zcard",
        "+publish",
        "+subscribe",
        "+script|load",
        "+zpopmin",
        "+mset",
    ],
    kinds: &["x", "o", "r", "w", "o:a"],
    denied_kinds: &["x", "r"],
    always: &[
        "+eval", "+evalsha", "+set", "+info", "+role", "+del", "+zrem", "~lock:*",
    ],
    leases: [QUORUM_TTL, QUORUM_TTL.checked_div(2).unwrap()],
    ..SCRIPTS
};

/// Without these, every kind of lock is still handed over, and a poll finds the grant.
const PUSHES: [&str; 3] = ["+publish", "+subscribe", "&lock:@grant:*"];

/// A word of a documented line that is taken from the user, or nothing.
struct Missing<'a> {
    column: &'a Column,
    right: &'a str,
}

impl Missing<'_> {
    /// Nothing fails.
    fn works(&self) -> bool {
        self.right.is_empty() || self.column.quiet.contains(&self.right)
    }

    async fn is_taken(&self, lab: &Lab) {
        match self.right.chars().next() {
            None => {}
            Some('~') => lab.rules(["resetkeys", "~another:*"]).await,
            Some('&') => lab.rules(["resetchannels"]).await,
            Some(_) => lab.deny(self.right).await,
        }
    }

    async fn is_given_back(&self, lab: &Lab) {
        if !self.right.is_empty() {
            lab.rules([self.right]).await;
        }
    }

    /// The user was refused this, and nothing else.
    async fn was_refused(&self, lab: &Lab) {
        let is_meant = |it: &String| match self.right.strip_prefix('+') {
            Some(_) => it == denied(self.right),
            None => it.starts_with("lock:"),
        };
        let refused = lab.refused().await;
        let is_one = refused.iter().all(is_meant) && refused.is_empty() == self.right.is_empty();
        assert!(is_one, "{:?} of {:?}: {refused:?}", self.right, self.column);
    }

    /// Whether the error says what is missing.
    fn is_named(&self, error: &LockError) -> bool {
        let word = self.right.strip_prefix('+').unwrap_or("key");
        let words = format!("{:?}", error.source()).to_lowercase();
        let is_meant = match error {
            LockError::Refused { reason, .. } => *reason == Refusal::NoPermission,
            // Nodes that refuse their handshake are away.
            LockError::Unavailable { .. } => self.column.topology == "quorum",
            _ => false,
        };
        is_meant && words.contains(word)
    }
}

impl Column {
    const fn at(self, topology: &'static str) -> Self {
        Self { topology, ..self }
    }

    async fn check(&self) {
        let all = self.topology.is_empty() || std::env::var_os("DLOCK_TEST_ALL_CASES").is_some();
        let mut rights = documented_rules(&format!("ACL SETUSER {} on >… ", self.user));
        // HELLO needs no right from Redis 7 on.
        rights.retain(|it| it.starts_with(['+', '~', '&']) && *it != "+hello");
        if self.topology == "quorum" {
            rights.extend(documented_node_rules());
            // Who can't hear leaves no hint, so that nothing there shows that it waits.
            rights.retain(|it| !it.starts_with('&'));
        }
        rights.retain(|it| all || self.always.contains(it));
        let enough: Vec<_> = iter::once("")
            .chain(PUSHES.into_iter().filter(|it| rights.contains(it)))
            .collect();
        let kinds = self.denied_kinds.iter();
        let missed = join_all(kinds.map(|kind| self.rows(&rights, slice::from_ref(kind))));
        let (enough, missed) = tokio::join!(self.rows(&enough, self.kinds), missed);
        assert_eq!(enough, BTreeSet::new());
        let named: BTreeSet<_> = missed.into_iter().flatten().collect();
        rights.retain(|it| !self.quiet.contains(it));
        assert_eq!(named, rights.into_iter().collect(), "{self:?}");
    }

    /// Which of these rights some call misses.
    async fn rows(&self, rights: &[&'static str], kinds: &[&str]) -> BTreeSet<&'static str> {
        let lab = Lab::new(self.topology, self.user).await;
        let mut named = BTreeSet::new();
        for right in rights {
            let missing = Missing {
                column: self,
                right,
            };
            for kind in kinds {
                // The server ends connections that are subscribed to what they may not hear.
                if right.starts_with('&') {
                    missing.is_taken(&lab).await;
                }
                let calls = Calls::of(&lab, kind, self.leases[0]).await;
                let errors = timeout(CAP * 3, calls.without(&missing)).await.unwrap();
                let what = format!("{self:?}, {kind} without {right:?}: {errors:#?}");
                assert!(errors.is_empty() || !missing.works(), "{what}");
                if errors.iter().any(|it| missing.is_named(it)) {
                    named.insert(*right);
                }
                missing.was_refused(&lab).await;
                nothing_stays(&lab, &what).await;
            }
        }
        named
    }
}

/// No key is left for ever, but counters.
async fn nothing_stays(lab: &Lab, what: &str) {
    for server in lab.servers() {
        for key in server.keys().await.iter().filter(|it| !is_counter(it)) {
            let stays = server.pttl(key).await == -1;
            assert!(!stays, "{key} stays for ever: {what}");
            server.cmd(&["DEL", key]).await;
        }
    }
    lab.each(&["ACL", "LOG", "RESET"]).await;
}

/// Whether it stays by design.
fn is_counter(key: &str) -> bool {
    key.contains("@fence") || key.ends_with("@quorum")
}

macro_rules! columns {
    ($($test:ident: $column:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $column.check().await;
        }
    )*};
}

columns! {
    one_server: SCRIPTS;
    over_tls: SCRIPTS.at("tls");
    behind_sentinels: SCRIPTS.at("sentinel");
    behind_a_proxy_that_shards: SCRIPTS.at("sharded");
    at_independent_nodes: NODES;
    without_scripts: TRANSACTIONS;
    without_scripts_over_tls: TRANSACTIONS.at("tls");
    without_scripts_behind_sentinels: TRANSACTIONS.at("sentinel");
    without_scripts_behind_a_proxy_that_shards: TRANSACTIONS.at("sharded");
}
