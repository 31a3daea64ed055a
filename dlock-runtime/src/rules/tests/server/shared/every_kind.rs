//! What holds for a lock of each kind: rows of commands and what they lead to, for exclusive locks,
//! readers, writers, permits and owners alike.
//!
//! A row is a line of words (`Case::take`), from a lock that `h` holds for 30 s, against `a`, `b`, …
//! Where two expectations are given, the second is for waiters that hold the lock together.

use super::*;
use crate::rules::commands::PushedGrant;

/// What `h` asks for, and the others, by their names.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    holder: KindOf,
    waiter: KindOf,
    /// The others hold the lock together.
    together: bool,
}

type KindOf = fn(&str) -> Kind;

const COLUMNS: [Column; 7] = [
    column("exclusive", |_| Kind::Exclusive, |_| Kind::Exclusive, false),
    column("writers", |_| Kind::Write, |_| Kind::Write, false),
    column("readers", |_| Kind::Write, |_| Kind::Read, true),
    column("a reader", |_| Kind::Read, |_| Kind::Write, false),
    column("all permits", |_| take(3), |_| take(3), false),
    column("permits", |_| take(3), |_| take(1), true),
    column("owners", owner, owner, false),
];

const fn column(name: &'static str, holder: KindOf, waiter: KindOf, together: bool) -> Column {
    Column {
        name,
        holder,
        waiter,
        together,
    }
}

fn take(take: u32) -> Kind {
    Kind::Permits { of: 3, take }
}

/// Each is its own.
fn owner(name: &str) -> Kind {
    Kind::Owned(name.into())
}

const ROWS: &str = "
a grant is for the claim, and only those that have it are told:
    acquire.a=queued acquire.b=queued +10 release.h=found
    told=a|a,b holders=a|a,b line=b| left=3000
a release of somebody else's lock changes nothing:
    acquire.a=queued release.a=nothing told= holders=h line=a
k5 a release that finds nothing grants too:
    +29999 acquire.a=queued +1 release.h=nothing told=a holders=a
k5 a cancel that finds nothing grants too:
    +29999 acquire.a=queued +1 cancel.h=nothing told=a holders=a
k5 a cancel of the head grants to the one behind it:
    +29999 acquire.a=queued acquire.b=queued +1 cancel.a=found told=b holders=b
a cancel of a granted waiter passes the lock on:
    acquire.a=queued acquire.b=queued release.h=found cancel.a=found holders=b told=a,b
k7 a place without a sign of life for 3.5 s is passed over:
    acquire.silent=queued acquire.a=queued +3000 poll.a=queued +499 poll.a=queued +1
    release.h=found told=a line=
k7 and not before:
    acquire.silent=queued +3499 release.h=found told=silent
more silent entries than one sweep takes are passed over in one grant:
    crowd.40 +3500 acquire.a=queued release.h=found told=a line=
k8 an acquire executed twice keeps its one entry:
    acquire.a=queued acquire.b=queued acquire.a=queued line=a,b
    release.h=found release.a=found told=a,b line=
k8 a duplicate is a sign of life:
    acquire.a=queued +3400 acquire.a=queued +3400 release.h=found told=a
a duplicate of the holder's is one holder, with what is left:
    +10000 acquire.h=yours:20000 holders=h left=20000 release.h=found keys=0
m1 a poll never creates:
    release.h=found poll.a=gone keys=0
m1 nor again what has left:
    acquire.a=queued cancel.a=found poll.a=gone line=
m3 yours says what is left and lengthens nothing:
    acquire.a=queued release.h=found +1200 poll.a=yours:1800 poll.a=yours:1800 +1800 poll.a=gone
a poll comes before the sweep:
    acquire.a=queued +3600 poll.a=queued line=a
m13 who does not hear is skipped at once:
    acquire.dead=queued acquire.gone=queued acquire.a=queued mute.dead mute.gone
    release.h=found holders=a line= told=a
where no waiter responds the lock is free:
    acquire.dead=queued acquire.gone=queued mute.dead mute.gone release.h=found holders= keys=0
a refused push keeps the grant and the poll finds it:
    acquire.a=queued acquire.b=queued forbid release.h=found +500 poll.a=yours:2500 line=b|
a late acquire does not queue nor grant:
    +29999 acquire.a=queued +1 late.b=late line=a told=
a late acquire creates nothing:
    release.h=found late.a=late keys=0
a cancel is conclusive once it found something or nothing can come:
    cancel.b.0=open cancel.b.1=open cancel.b.-1=nothing cancel.h.0=found keys=0
a cancel of a waiter is conclusive and leaves the holder alone:
    acquire.a=queued acquire.b=queued cancel.a.1=found line=b holders=h cancel.a.1=open
a renewal lengthens, and never shortens and never creates:
    renew.h.5=yes left=30000 +10000 renew.h.30=yes left=30000 renew.b.30=no holders=h
    +30000 renew.h.30=no keys=0
k13 a lock that is kept is nobody's and is not granted:
    acquire.a=queued keep.h.1500=found holders=-h left=1500 told=
    holds.h=no renew.h.30=no release.h=nothing downgrade.h=no
    +1499 poll.a=queued +1 poll.a=yours:3000
k12 a cancel keeps the lock as well:
    acquire.a=queued cancel_keeping.h.60000=found holders=-h left=60000 told=
a lock whose time is over is not kept:
    acquire.a=queued keep.h.0=found told=a holders=a
what is not found is not kept:
    keep.b.1000=nothing holders=h
";

struct Case {
    world: World,
    column: Column,
    /// The pushes so far that no word has asked for.
    pushed: Vec<PushedGrant>,
    /// The highest so far.
    epoch: u64,
}

#[test]
fn what_holds_for_every_kind() {
    let rows = ROWS.trim().replace("\n    ", " ");
    let mut wrong = Vec::new();
    for (row, column) in rows.lines().flat_map(|row| COLUMNS.map(|it| (row, it))) {
        let (name, words) = row.split_once(": ").expect("a name");
        let mut case = Case::new(column);
        for word in words.split_whitespace() {
            let (what, expected) = word.split_once('=').unwrap_or((word, ""));
            let (alone, together) = expected.split_once('|').unwrap_or((expected, expected));
            let mut expected = if column.together { together } else { alone };
            if expected == "-h" && column.name == "owners" {
                expected = "-"; // an owner's entry that is kept has no name
            }
            let found = case.take(what);
            if found != expected {
                wrong.push(format!("{name}, {}: {word}, not {found}", column.name));
            }
            case.hear();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Case {
    fn new(column: Column) -> Self {
        let mut world = World::new();
        let epoch = world.granted(&claim(&(column.holder)("h"), "h"));
        Self {
            world,
            column,
            pushed: Vec::new(),
            epoch,
        }
    }

    fn claim(&self, who: &str) -> Claim {
        let kind_of = if who == "h" {
            self.column.holder
        } else {
            self.column.waiter
        };
        claim(&kind_of(who), who)
    }

    fn take(&mut self, what: &str) -> String {
        if let Some(millis) = what.strip_prefix('+') {
            self.world.pass(millis.parse().expect("milliseconds"));
            return String::new();
        }
        let words: Vec<&str> = what.split('.').collect();
        let who = words.get(1).copied().unwrap_or_default();
        let number = words.get(2).and_then(|it| it.parse().ok());
        let claim = self.claim(who);
        let world = &mut self.world;
        match words[0] {
            "acquire" => self.acquire(&claim, u64::MAX),
            "late" => self.acquire(&claim, self.world.time - 1),
            "poll" => self.poll(&claim),
            "release" => if_found(world.give_back(&claim).found),
            "keep" => if_found(self.keep(&claim, number, false)),
            "cancel_keeping" => if_found(self.keep(&claim, number, true)),
            "cancel" => self.cancel(&claim, number),
            "renew" => if_yes(self.renew(&claim, number)),
            "downgrade" => if_yes(world.downgrade(&claim, 30)),
            "holds" => if_yes(world.holds(&claim)),
            "told" => {
                let told = self.pushed.drain(..).map(|it| name(&it.value));
                told.collect::<Vec<_>>().join(",")
            }
            "holders" => self.holders().join(","),
            "line" => world.line().join(","),
            "left" => {
                let left = world.server.expires(KEY).map(|it| it - world.time);
                assert_eq!(left.map_or(0, |it| it % MS), 0, "whole milliseconds");
                world.left().to_string()
            }
            "keys" => world.server.len().to_string(),
            other => self.arrange(other, who),
        }
    }

    fn arrange(&mut self, what: &str, who: &str) -> String {
        match what {
            "forbid" => self.world.wire.forbidden = true,
            "mute" => _ = self.world.wire.unresponsive.insert(who.to_owned()),
            "crowd" => {
                for number in 0..who.parse().expect("how many") {
                    let claim = self.claim(&format!("silent{number}"));
                    self.world.queued(&claim);
                }
            }
            other => panic!("{other} is no word"),
        }
        String::new()
    }

    fn acquire(&mut self, claim: &Claim, not_after: u64) -> String {
        let command = Acquire {
            claim: claim.clone(),
            lease: seconds(30),
            not_after,
            repair_missing_ttl: None,
        };
        let world = &mut self.world;
        match world.server.acquire(&command, world.time, &mut world.wire) {
            Acquired::Granted { .. } => "granted".to_owned(),
            Acquired::Yours { epoch, left, .. } => self.yours(epoch, left),
            Acquired::Queued(_) => "queued".to_owned(),
            Acquired::Late { time } if time == world.time => "late".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn poll(&mut self, claim: &Claim) -> String {
        match self.world.poll(claim) {
            Polled::Yours { epoch, left, .. } => self.yours(epoch, left),
            Polled::Queued(_) => "queued".to_owned(),
            Polled::Gone { .. } => "gone".to_owned(),
            Polled::NotDue(it) => format!("not due: {}", it.record),
        }
    }

    /// Of an exclusive lock, whose last epoch a lost answer may have told, each answer has a new
    /// one.
    fn yours(&self, epoch: u64, left: Duration) -> String {
        let is_new = epoch > self.epoch || epoch == self.epoch && self.column.name != "exclusive";
        assert!(is_new, "{}: {epoch} after {}", self.column.name, self.epoch);
        format!("yours:{}", left.as_millis())
    }

    /// `number`: the acquire may still be executed for so many µs; otherwise it was answered.
    fn cancel(&mut self, claim: &Claim, number: Option<i64>) -> String {
        let world = &mut self.world;
        let not_after = number.map_or(0, |it| world.time.saturating_add_signed(it));
        let answer =
            (world.server).cancel(claim, Keep::NOT, not_after, world.time, &mut world.wire);
        let is_open = !answer.found && !answer.conclusive;
        let is_whole = (answer.time, answer.rest) == (world.time, 0);
        assert!(is_whole && (answer.conclusive || is_open), "{answer:?}");
        if is_open {
            "open".to_owned()
        } else {
            if_found(answer.found)
        }
    }

    /// For so many seconds.
    fn renew(&mut self, claim: &Claim, number: Option<i64>) -> bool {
        let ttl = number.expect("how long").unsigned_abs();
        self.world.renew(claim, ttl) == Renewed::Yes
    }

    /// From now on, for so many ms.
    fn keep(&mut self, claim: &Claim, number: Option<i64>, cancels: bool) -> bool {
        let world = &mut self.world;
        let until = world.time + number.expect("how long").unsigned_abs() * MS;
        if !cancels {
            return world.release_keeping(claim, until);
        }
        let keep = until_then(until, world.time);
        let answer = (world.server).cancel(claim, keep, 0, world.time, &mut world.wire);
        answer.found && answer.conclusive
    }

    fn holders(&mut self) -> Vec<String> {
        let mut holders = self.world.holders();
        holders.dedup(); // one for each permit
        let value = self.world.server.read(KEY, self.world.time);
        if holders.is_empty() {
            value.iter().map(|it| name(it)).collect()
        } else {
            holders
        }
    }

    /// Each grant is for a claim, at once, and drew its epoch by the clock.
    fn hear(&mut self) {
        for grant in std::mem::take(&mut self.world.wire.pushed) {
            let claim = self.claim(&name(&grant.value));
            assert_eq!((&*grant.key, &grant.value), (KEY, &claim.value));
            assert_eq!((grant.time, grant.lease), (self.world.time, queue::CLAIM));
            assert!(grant.epoch >= grant.time && grant.epoch > self.epoch);
            self.epoch = grant.epoch;
            self.pushed.push(grant);
        }
    }
}

fn if_found(found: bool) -> String {
    (if found { "found" } else { "nothing" }).to_owned()
}

fn if_yes(is_done: bool) -> String {
    (if is_done { "yes" } else { "no" }).to_owned()
}
