//! A table of rows decides like the whole machine, whatever is read of its queues; and no row that
//! another program wrote makes it panic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest,
};
use proptest::test_runner::RngSeed;

use super::windows::{Wire, acquire, claim, ttl, without_epochs};
use super::world::{KEY, until_then};
use super::{MS, NOW};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::rules::commands::{Claim, Keep, Polled, Renewal, RunNote};
use crate::rules::row::{LoadedRows, LockRow, SeenRow};
use crate::rules::window::{StoredQueue, StoredWaiter};
use crate::rules::{Publish, Server};
use crate::values::entry::{self, Letter};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    Acquire,
    Poll,
    Renew,
    Release,
    Keep,
    Cancel,
    Downgrade,
    Note,
}

/// From the twelfth on, they run once per period.
pub(crate) fn claim_of(who: usize) -> Claim {
    if who < 12 {
        return claim(who);
    }
    let value = format!("1|x|t{who}|somebody|8000|0|3000||h|1|f|0");
    Claim {
        value: value.into(),
        is_once: true,
        ..claim(0)
    }
}

/// The answer, and the epoch that it tells.
pub(crate) fn ask(
    server: &mut Server,
    (asks, who): (Asks, usize),
    time: u64,
    wire: &mut impl Publish,
) -> (String, Option<u64>) {
    let claim = claim_of(who);
    let run = RunNote::begun(time, time);
    let text = match asks {
        Asks::Acquire => {
            let answer = server.acquire(&acquire(&claim), time, wire);
            return (format!("{answer:?}"), answer.epoch());
        }
        Asks::Poll => {
            let answer = server.poll(&claim, time, wire);
            let epoch = match answer {
                Polled::Yours { epoch, .. } => Some(epoch),
                _ => None,
            };
            return (format!("{answer:?}"), epoch);
        }
        Asks::Renew => format!("{:?}", server.renew(&Renewal { claim, ttl: ttl() }, time)),
        Asks::Release => format!("{:?}", server.release(&claim, Keep::NOT, time, wire)),
        Asks::Keep => {
            let keep = until_then(time + 2_000 * MS, time);
            format!("{:?}", server.release(&claim, keep, time, wire))
        }
        Asks::Cancel => format!("{:?}", server.cancel(&claim, Keep::NOT, 0, time, wire)),
        Asks::Downgrade => format!("{:?}", server.downgrade(&claim, ttl(), time, wire)),
        Asks::Note => format!("{:?}", server.note_run(&claim, run, time)),
    };
    (text, None)
}

/// The same of a link, without the epoch apart.
pub(crate) async fn ask_link(
    link: &dyn Link,
    (asks, who): (Asks, usize),
    time: u64,
    within: Duration,
) -> Result<String, CommandError> {
    let claim = claim_of(who);
    let run = RunNote::begun(time, time);
    Ok(match asks {
        Asks::Acquire => {
            let command = acquire(&claim);
            format!("{:?}", link.acquire(&command, within).await?)
        }
        Asks::Poll => format!("{:?}", link.poll(&claim, within).await?),
        Asks::Renew => {
            let items = [Renewal { claim, ttl: ttl() }];
            format!("{:?}", link.renew(&items, within).await?[0])
        }
        Asks::Release => format!("{:?}", link.release(&claim, Keep::NOT, within).await?),
        Asks::Keep => {
            let keep = until_then(time + 2_000 * MS, time);
            format!("{:?}", link.release(&claim, keep, within).await?)
        }
        Asks::Cancel => format!("{:?}", link.cancel(&claim, Keep::NOT, 0, within).await?),
        Asks::Downgrade => format!("{:?}", link.downgrade(&claim, ttl(), within).await?),
        Asks::Note => format!("{:?}", link.note_run(&claim, run, within).await?),
    })
}

/// What is asked, of whom, and how many ms pass before.
pub(crate) fn steps() -> impl Strategy<Value = Vec<(Asks, usize, u64)>> {
    let asks = prop_oneof![
        5 => Just(Asks::Acquire), 3 => Just(Asks::Poll), 1 => Just(Asks::Renew), 3 => Just(Asks::Release),
        1 => Just(Asks::Keep), 2 => Just(Asks::Cancel), 1 => Just(Asks::Downgrade), 1 => Just(Asks::Note),
    ];
    let pass = prop_oneof![6 => Just(1u64), 2 => Just(700), 1 => Just(2_500)];
    proptest::collection::vec((asks, 0..15usize, pass), 1..60)
}

/// A store that knows no rule.
#[derive(Default)]
struct Table {
    version: i64,
    row: LockRow,
    waiters: BTreeMap<(u64, Arc<str>), u64>,
}

impl Table {
    fn read(&self, own: &str, time: u64, heads: usize) -> SeenRow {
        let all = self.waiters.iter();
        let all = all.map(|((arrival, entry), alive)| StoredWaiter {
            entry: entry.clone(),
            arrival: *arrival,
            alive_until: *alive,
        });
        let all: Vec<_> = all.collect();
        let last_head = all.get(heads - 1).filter(|_| all.len() > heads);
        let read_to = last_head.map(|it| it.arrival);
        let is_read = |it: &StoredWaiter| {
            let is_head = read_to.is_none_or(|to| it.arrival <= to);
            is_head || it.alive_until <= time || *it.entry == *own
        };
        SeenRow {
            key: KEY.into(),
            version: self.version,
            row: self.row.clone(),
            queue: StoredQueue {
                waiters: all.into_iter().filter(is_read).collect(),
                read_to,
            },
            is_kept: false,
        }
    }

    /// Returns the answer, and the epoch that it told.
    fn run(
        &mut self,
        asked: (Asks, usize),
        time: u64,
        heads: usize,
        wire: &mut Wire,
    ) -> (String, Option<u64>) {
        let claim = claim_of(asked.1);
        let seen = self.read(&claim.value, time, heads);
        let mut rows = LoadedRows::load(vec![seen], &[&claim.value], time).unwrap();
        let before = wire.0.len();
        let ((answer, told), more) = rows.run(|server| ask(server, asked, time, wire));
        if more {
            assert!(heads < usize::MAX, "more than all");
            wire.0.truncate(before);
            return self.run(asked, time, usize::MAX, wire);
        }
        let of_answer = told.map(|epoch| (KEY, epoch));
        for change in rows.changes(of_answer.as_slice()) {
            assert_eq!((&*change.key, change.version), (KEY, self.version));
            if let Some(row) = change.row {
                assert!(row.epoch >= self.row.epoch, "epochs only grow");
                (self.row, self.version) = (row, self.version + 1);
            }
            for gone in change.gone {
                self.waiters.retain(|(arrival, _), _| *arrival != gone);
            }
            for it in change.waiters {
                self.waiters.insert((it.arrival, it.entry), it.alive_until);
            }
        }
        assert!(self.row.waiting || self.waiters.is_empty());
        (answer, told)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_table_decides_like_the_whole(
        heads in 1..4usize,
        steps in steps(),
    ) {
        let (mut server, mut table, mut time) = (Server::default(), Table::default(), NOW);
        let mut epochs: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (asks, who, pass) in steps {
            time += pass * MS;
            if server.queue_ends(KEY, time).is_none() {
                table.waiters.clear(); // which the table does one by one, as somebody asks
                table.row.waiting = false;
            }
            let (mut pushed, mut told) = (Wire::default(), Wire::default());
            let (all, _) = ask(&mut server, (asks, who), time, &mut pushed);
            let (some, epoch) = table.run((asks, who), time, heads, &mut told);
            prop_assert_eq!(without_epochs(&some), without_epochs(&all), "{:?} of {}", asks, who);
            for it in &told.0 {
                epochs.insert(it.value.clone(), it.epoch);
            }
            if let Some(epoch) = epoch {
                epochs.insert(claim_of(who).value, epoch);
            }
            // Who is alone has the epoch that it was told last.
            if let Some(holder) = server.read(KEY, time) {
                let letter = entry::letter_of(&holder);
                let is_alone = matches!(letter, Some(Letter::Exclusive | Letter::Writer));
                if entry::is_retired(&holder) || !is_alone {
                    prop_assert_eq!(table.row.sole.filter(|_| letter != Some(Letter::Owner)), None);
                } else if let Some(epoch) = epochs.get(&*holder) {
                    prop_assert_eq!(table.row.sole, i64::try_from(*epoch).ok());
                }
            }
            let pushed: Vec<_> = pushed.0.into_iter().map(|it| (it.value, it.lease)).collect();
            let told: Vec<_> = told.0.into_iter().map(|it| (it.value, it.lease)).collect();
            prop_assert_eq!(told, pushed);
            let stored = table.waiters.iter().map(|((_, entry), alive)| (entry.clone(), *alive));
            prop_assert_eq!(stored.collect::<Vec<_>>(), server.waiting(KEY, time));
        }
    }

    /// Each column of a stranger's choice.
    #[test]
    fn no_row_makes_the_machine_panic(
        holder in prop_oneof![
            Just(String::new()), Just("1|#|rw".to_owned()), Just("1|#|p||99999999999".to_owned()),
            Just("1|#|o|ann|18446744073709551615".to_owned()), "1\\|[xrwpoz#]\\|\\PC{0,20}", "\\PC{0,9}",
            Just(claim(1).value.to_string()),
        ],
        numbers in (any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>()),
        members in prop_oneof![
            Just(String::new()), "\\PC{0,30}", "[0-9 ]{0,30}",
            Just(format!("{} {} {}\n", i64::MAX, claim(1).value.len(), claim(1).value)),
            Just(format!("{} 7 1|p|é\n", NOW + 5)),
        ],
        record in "\\PC{0,20}",
        waiter in (any::<u64>(), any::<u64>(), "\\PC{0,20}"),
        who in 0..15usize,
        is_kept in any::<bool>(),
    ) {
        let (ends, epoch, sole, record_ends) = numbers;
        let row = LockRow { holder, ends, epoch, sole: Some(sole), members, waiting: true, record, record_ends };
        let waiters = vec![StoredWaiter { entry: waiter.2.into(), arrival: waiter.0, alive_until: waiter.1 }];
        let queue = StoredQueue { waiters, read_to: None };
        let seen = SeenRow { key: KEY.into(), version: 1, row, queue, is_kept };
        let value = claim_of(who).value;
        for asks in [Asks::Acquire, Asks::Poll, Asks::Renew, Asks::Keep, Asks::Cancel, Asks::Downgrade, Asks::Note] {
            if let Ok(mut rows) = LoadedRows::load(vec![seen.clone()], &[&value], NOW) {
                let ((_, told), _) = rows.run(|server| ask(server, (asks, who), NOW, &mut Wire::default()));
                let _ = rows.changes(told.map(|epoch| (KEY, epoch)).as_slice());
            }
        }
    }
}

/// A row that a transaction of the user's keeps: a release frees without granting, waiters wait.
#[test]
fn nobody_is_granted_a_row_that_is_kept() {
    let [ours, next, late] = [claim(5), claim(10), claim(0)];
    let mut table = Table::default();
    for who in [5, 10] {
        table.run((Asks::Acquire, who), NOW, 9, &mut Wire::default());
    }
    let ask_kept = |table: &mut Table, asks, claim: &Claim, who| {
        let mut seen = table.read(&claim.value, NOW, 9);
        seen.is_kept = true;
        let mut rows = LoadedRows::load(vec![seen], &[&claim.value], NOW).unwrap();
        let ((answer, _), _) = rows.run(|it| ask(it, (asks, who), NOW, &mut Wire::default()));
        for change in rows.changes(&[]) {
            assert!(!change.is_grant, "{asks:?}");
            table.row = change.row.unwrap_or(table.row.clone());
            assert!(table.row.waiting, "{asks:?}");
            for it in change.waiters {
                table.waiters.insert((it.arrival, it.entry), it.alive_until);
            }
        }
        answer
    };
    for who in 0..15 {
        let mut free = Table::default();
        let answer = ask_kept(&mut free, Asks::Acquire, &claim_of(who), who);
        assert!(answer.contains("Busy {"), "{who}: {answer}");
    }
    let released = ask_kept(&mut table, Asks::Release, &ours, 5);
    assert!(released.contains("found: true"), "{released}");
    assert_eq!((&*table.row.holder, table.row.sole), ("", None));
    let kept = Duration::from_millis(100);
    for (asks, claim, who) in [(Asks::Poll, &next, 10), (Asks::Acquire, &late, 0)] {
        let answer = ask_kept(&mut table, asks, claim, who);
        assert!(answer.contains(&format!("Queued(Busy {{ time: {NOW}, left: For({kept:?})")));
    }
    assert_eq!(table.waiters.len(), 2);
    let (granted, _) = table.run((Asks::Poll, 10), NOW, 9, &mut Wire::default());
    assert!(granted.starts_with("Yours"), "{granted}");
}
