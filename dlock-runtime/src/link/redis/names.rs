//! The keys and channels that belong to a lock, besides the lock's own key. All are in the pool's
//! namespace, so that one ACL pattern covers them.
//!
//! Invariants: the queue's keys are in the same cluster slot as the lock. A name belongs to exactly
//! one lock of one namespace: no namespace contains an `@`, and `dlock_grammar::key` refuses keys
//! that would be another namespace's companion or counter. `tests/names.rs` also checks that the
//! names reserved for a later version (the keys of a lock's named slots: `@s:{…}`, `@s#…`) differ
//! from all of these.

use std::borrow::Cow;
use std::sync::Arc;

use crate::values::slot::{SLOTS, crc16, hash_tag, slot, tag};

/// The names of one pool.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    namespace: Arc<str>,
    counters: Counters,
    /// Scripts declare a key that never exists.
    declares_an_absent_key: bool,
    witness: Arc<str>,
    somebody_wants: Arc<str>,
}

/// The epoch counters of a namespace.
#[derive(Clone, Debug)]
enum Counters {
    /// One for all locks.
    One(Arc<str>),
    /// One for each slot, so that it is in the slot of the locks that draw from it.
    PerSlot,
    /// On a node of a quorum: [`OF_A_NODE`] of those by slot, chosen by the hash of the lock. Two
    /// locks that draw from one counter at the same time may draw in another order at each node,
    /// which costs a round.
    OfNode(Arc<[Box<str>]>),
}

/// How many counters a node of a quorum has. A constant of the protocol.
const OF_A_NODE: u16 = 1024;

/// The keys that the scripts about one lock use besides the lock's own.
#[derive(Debug)]
pub(crate) struct LockKeys<'a> {
    /// The epoch counter.
    pub(crate) counter: Cow<'a, str>,
    /// The waiting entries by arrival.
    pub(crate) queue: Companion<'a>,
    /// The same entries by the time until which they count as alive.
    pub(crate) heartbeats: Companion<'a>,
    /// On a node of a quorum: who wants to be told that the lock is free.
    pub(crate) hints: Companion<'a>,
}

impl LockKeys<'_> {
    /// Where the record of the last run stands. `lua/record.lua` derives it from the queue's name, too.
    pub(crate) fn record(&self) -> String {
        let record = Companion {
            letter: CompanionLetter::Record,
            ..self.queue
        };
        record.text()
    }
}

/// The name of a key that belongs to a lock; it becomes text only where it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Companion<'a> {
    namespace: &'a str,
    letter: CompanionLetter,
    lock: &'a str,
    /// The lock's name contains a hash tag.
    is_tagged: bool,
}

/// Which key of a lock a name is of.
#[derive(Clone, Copy, Debug)]
enum CompanionLetter {
    Queue,
    Heartbeats,
    Hints,
    Record,
}

impl CompanionLetter {
    /// What stands between the namespace and the lock's name.
    fn before(self) -> &'static str {
        match self {
            CompanionLetter::Queue => "@w:{",
            CompanionLetter::Heartbeats => "@a:{",
            CompanionLetter::Hints => "@h:{",
            CompanionLetter::Record => "@r:{",
        }
    }

    /// The same for a lock with a hash tag of its own.
    fn before_tagged(self) -> &'static str {
        match self {
            CompanionLetter::Queue => "@w#",
            CompanionLetter::Heartbeats => "@a#",
            CompanionLetter::Hints => "@h#",
            CompanionLetter::Record => "@r#",
        }
    }
}

impl<'a> Companion<'a> {
    /// The parts of the name, in order.
    fn parts(self) -> [&'a str; 4] {
        let Self {
            namespace,
            letter,
            lock,
            is_tagged,
        } = self;
        if is_tagged {
            let bare = lock.strip_prefix(namespace).unwrap_or(lock);
            // `#` and not `:`, because `{<lock>}` is a valid lock name too, and would get the
            // companions of the untagged `<lock>`.
            [namespace, letter.before_tagged(), bare, ""]
        } else {
            [namespace, letter.before(), lock, "}"]
        }
    }

    pub(crate) fn text(self) -> String {
        self.parts().concat()
    }

    /// Writes the name into a reused buffer.
    pub(crate) fn text_in(self, room: &mut String) -> &str {
        room.clear();
        for part in self.parts() {
            room.push_str(part);
        }
        room
    }
}

/// The queues of many locks, one after the other: what their names begin with is written once.
pub(crate) struct QueueNames<'a> {
    names: &'a Names,
    /// Begins with what stands before an untagged lock.
    text: String,
    begins: usize,
    /// The last name of a tagged lock.
    tagged: String,
}

impl QueueNames<'_> {
    pub(crate) fn of(&mut self, lock: &str) -> &str {
        if hash_tag(lock).is_some() {
            return self.names.of(lock).queue.text_in(&mut self.tagged);
        }
        self.text.truncate(self.begins);
        self.text.push_str(lock);
        self.text.push('}');
        &self.text
    }
}

impl Names {
    pub(crate) fn new(namespace: &str, is_per_slot: bool) -> Self {
        Self {
            namespace: namespace.into(),
            counters: if is_per_slot {
                Counters::PerSlot
            } else {
                Counters::One(format!("{namespace}@fence").into())
            },
            declares_an_absent_key: false,
            witness: format!("{namespace}@witness").into(),
            somebody_wants: format!("{namespace}@h:{{}}").into(),
        }
    }

    /// The names at a node of a cluster.
    pub(crate) fn of_cluster(namespace: &str) -> Self {
        Self {
            declares_an_absent_key: true,
            ..Self::new(namespace, true)
        }
    }

    /// The names at a node of a quorum.
    pub(crate) fn of_node(namespace: &str) -> Self {
        let counters = (0..OF_A_NODE).map(|it| slot_counter(namespace, it).into());
        Self {
            counters: Counters::OfNode(counters.collect()),
            ..Self::new(namespace, true)
        }
    }

    /// The keys of the lock at this key, which begins with the namespace.
    pub(crate) fn of<'a>(&'a self, lock: &'a str) -> LockKeys<'a> {
        let is_tagged = hash_tag(lock).is_some();
        let companion = |letter| Companion {
            namespace: &self.namespace,
            letter,
            lock,
            is_tagged,
        };
        LockKeys {
            counter: self.counter(lock),
            queue: companion(CompanionLetter::Queue),
            heartbeats: companion(CompanionLetter::Heartbeats),
            hints: companion(CompanionLetter::Hints),
        }
    }

    /// What the names of all records begin with.
    pub(crate) fn records(&self) -> String {
        format!("{}@r", self.namespace)
    }

    /// The lock whose record has this name, if it is one.
    pub(crate) fn of_record(&self, name: &str) -> Option<String> {
        let rest = name.strip_prefix(self.namespace())?;
        let (plain, tagged) = (
            CompanionLetter::Record.before(),
            CompanionLetter::Record.before_tagged(),
        );
        let lock = match rest.strip_prefix(plain) {
            Some(lock) => lock.strip_suffix('}')?.to_owned(),
            None => [self.namespace(), rest.strip_prefix(tagged)?].concat(),
        };
        (self.of(&lock).record() == name).then_some(lock)
    }

    /// For the queues of many locks.
    pub(crate) fn queues(&self) -> QueueNames<'_> {
        let text = [&*self.namespace, CompanionLetter::Queue.before()].concat();
        QueueNames {
            names: self,
            begins: text.len(),
            text,
            tagged: String::new(),
        }
    }

    /// An upper bound of the bytes of a lock's name and its companions' names.
    pub(crate) fn room(&self, lock: &str) -> usize {
        3 * lock.len() + 2 * (self.namespace.len() + "@fence:{123456}".len())
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// In a cluster, a key in the slot of this lock's counter that never exists. A script that declares
    /// it is executed at neither node while the slot is moving, and not admitted because all its keys
    /// are still there: such a script would end in the middle, at the first key that it deletes and
    /// then looks at.
    pub(crate) fn absent(&self, counter: &str) -> Option<String> {
        self.declares_an_absent_key.then(|| format!("{counter}-"))
    }

    /// At a node of a quorum, the key that exists while anybody wants a hint there.
    pub(crate) fn somebody_wants(&self) -> &str {
        &self.somebody_wants
    }

    /// The one counter of all locks, if there is one.
    pub(crate) fn only_counter(&self) -> Option<&str> {
        match &self.counters {
            Counters::One(counter) => Some(counter),
            Counters::PerSlot | Counters::OfNode(_) => None,
        }
    }

    fn counter(&self, lock: &str) -> Cow<'_, str> {
        match &self.counters {
            Counters::One(counter) => Cow::Borrowed(counter),
            Counters::PerSlot => Cow::Owned(slot_counter(&self.namespace, slot(lock))),
            Counters::OfNode(counters) => {
                let at = usize::from(crc16(lock) % OF_A_NODE);
                Cow::Borrowed(counters.get(at).map_or("", |it| it)) // there are so many
            }
        }
    }

    /// How many groups of locks there are of which no script may touch two.
    pub(crate) fn script_groups(&self) -> u16 {
        match self.counters {
            Counters::One(_) | Counters::OfNode(_) => 1,
            Counters::PerSlot => SLOTS,
        }
    }

    /// The group of a lock.
    pub(crate) fn script_group(&self, lock: &str) -> u16 {
        match self.counters {
            Counters::One(_) | Counters::OfNode(_) => 0,
            Counters::PerSlot => slot(lock),
        }
    }

    /// The key that is written before replicas are waited for.
    pub(crate) fn witness(&self) -> &str {
        &self.witness
    }

    /// Where a node keeps what it knows about its quorum.
    pub(crate) fn quorum(&self) -> String {
        format!("{}@quorum", self.namespace)
    }

    /// Whether messages to a connection of a pool of this namespace are published there.
    pub(crate) fn is_channel(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.namespace());
        rest.is_some_and(|it| it.starts_with("@grant:"))
    }

    /// The channel of a connection, or of a pool at the nodes of a quorum.
    pub(crate) fn channel(&self, id: u64) -> String {
        format!("{}@grant:{id:016x}", self.namespace)
    }
}

fn slot_counter(namespace: &str, slot: u16) -> String {
    format!("{namespace}@fence:{{{}}}", tag(slot))
}
