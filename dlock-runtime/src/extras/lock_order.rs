//! The order in which locks are taken one inside another: it finds possible deadlocks before they
//! happen.
//!
//! A graph of classes: `a → b` says that `b` was requested while `a` was held. If a path leads from
//! `b` back to `a`, calls can end up waiting for each other. For a class inside itself the graph
//! keeps only how the two keys compared, and no key. It grows with the number of places in the
//! program that take locks, and with nothing else.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;

use crate::values::class::{Class, LockSite};
use crate::values::key::Key;

/// One lock that is requested while another is held.
#[derive(Debug)]
pub(crate) struct Nesting {
    pub(crate) held: LockSite,
    pub(crate) wanted: LockSite,
    /// The keys of both.
    pub(crate) keys: [Key; 2],
}

/// As [`Nesting`], without the keys.
#[derive(Clone, Debug)]
pub(crate) struct NestingSites {
    held: LockSite,
    wanted: LockSite,
}

/// Two orders that can't both be kept.
#[derive(Debug)]
pub(crate) struct Inversion {
    pub(crate) here: NestingSites,
    /// What was seen before: the path back, step by step.
    pub(crate) before: Vec<NestingSites>,
}

/// What is known about the order of locks.
#[derive(Debug, Default)]
pub(crate) struct LockOrders {
    /// Each class that was nested, with its number.
    numbers: HashMap<Class, usize>,
    /// Which class was requested inside which, as it was seen first.
    between: BTreeMap<(usize, usize), NestingSites>,
    within: HashMap<usize, Within>,
    reported: HashSet<(usize, usize)>,
}

impl LockOrders {
    /// Records a nesting. Returns the inversion that it makes possible, once for each pair of
    /// classes.
    pub(crate) fn note(&mut self, nesting: &Nesting) -> Option<Inversion> {
        let pair = self.pair(nesting)?;
        if self.is_known(pair, nesting) {
            return None;
        }
        let inversion = self.against(pair, nesting);
        self.keep(pair, nesting);
        let (a, b) = pair;
        inversion.filter(|_| self.reported.insert((a.min(b), a.max(b))))
    }

    /// Records the nestings, or returns the inversion that one of them would make possible, each
    /// time. A graph that only this method fills stays free of inversions.
    pub(crate) fn note_unless_inverted(&mut self, nestings: &[Nesting]) -> Option<Inversion> {
        let mut unknown = Vec::new();
        for nesting in nestings {
            let Some(pair) = self.pair(nesting) else {
                continue;
            };
            if self.is_known(pair, nesting) {
                continue;
            }
            if let Some(inversion) = self.against(pair, nesting) {
                return Some(inversion);
            }
            unknown.push((pair, nesting));
        }
        for (pair, nesting) in unknown {
            self.keep(pair, nesting);
        }
        None
    }

    /// The numbers of both classes; `None` if their order means nothing.
    fn pair(&mut self, nesting: &Nesting) -> Option<(usize, usize)> {
        let (held, wanted) = (&nesting.held.class, &nesting.wanted.class);
        let [held_key, wanted_key] = &nesting.keys;
        if held_key == wanted_key || held == wanted && !held.is_one_kind() {
            return None;
        }
        Some((self.number(held), self.number(wanted)))
    }

    fn number(&mut self, class: &Class) -> usize {
        let next = self.numbers.len();
        match self.numbers.get(class) {
            Some(number) => *number,
            None => *self.numbers.entry(class.clone()).or_insert(next),
        }
    }

    fn is_known(&self, pair: (usize, usize), nesting: &Nesting) -> bool {
        if pair.0 != pair.1 {
            return self.between.contains_key(&pair);
        }
        let within = self.within.get(&pair.0);
        within.is_some_and(|within| within.has(Way::of(nesting)))
    }

    fn keep(&mut self, pair: (usize, usize), nesting: &Nesting) {
        let step = NestingSites::of(nesting);
        if pair.0 == pair.1 {
            self.within
                .entry(pair.0)
                .or_default()
                .0
                .push((Way::of(nesting), step));
        } else {
            self.between.insert(pair, step);
        }
    }

    fn against(&self, pair: (usize, usize), nesting: &Nesting) -> Option<Inversion> {
        let before = if pair.0 == pair.1 {
            vec![self.within.get(&pair.0)?.against(Way::of(nesting))?]
        } else {
            self.way(pair.1, pair.0)?
        };
        let here = NestingSites::of(nesting);
        Some(Inversion { here, before })
    }

    /// The shortest path from one class to another.
    fn way(&self, from: usize, to: usize) -> Option<Vec<NestingSites>> {
        let mut came: HashMap<usize, (usize, &NestingSites)> = HashMap::new();
        let mut ends = VecDeque::from([from]);
        while let Some(end) = ends.pop_front() {
            for ((_, next), step) in self.between.range((end, 0)..=(end, usize::MAX)) {
                if *next != from && !came.contains_key(next) {
                    came.insert(*next, (end, step));
                    ends.push_back(*next);
                }
            }
        }
        let mut way = Vec::new();
        let mut at = to;
        while at != from {
            let (before, step) = came.get(&at)?;
            way.push((*step).clone());
            at = *before;
        }
        way.reverse();
        Some(way)
    }
}

impl NestingSites {
    fn of(nesting: &Nesting) -> Self {
        Self {
            held: nesting.held.clone(),
            wanted: nesting.wanted.clone(),
        }
    }
}

/// How two keys of one class compare, the held one with the requested one, in each of two orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    by_text: Ordering,
    by_number: Ordering,
}

impl Way {
    fn of(nesting: &Nesting) -> Self {
        let [held, wanted] = nesting.keys.each_ref().map(Key::as_str);
        Self {
            by_text: held.cmp(wanted),
            by_number: by_number(held, wanted),
        }
    }
}

/// A class inside itself: each way in which its keys compared, at most four, as it was seen first.
#[derive(Debug, Default)]
struct Within(Vec<(Way, NestingSites)>);

impl Within {
    fn has(&self, way: Way) -> bool {
        self.0.iter().any(|(seen, _)| *seen == way)
    }

    /// Callers may sort keys by their text or by the numbers in them. Two ways are an inversion
    /// only if they agree in neither order.
    fn against(&self, way: Way) -> Option<NestingSites> {
        let is_kept = |order: fn(Way) -> Ordering| {
            let mut seen = self.0.iter().map(|(seen, _)| *seen);
            seen.all(|seen| order(seen) == order(way))
        };
        if is_kept(|way| way.by_text) || is_kept(|way| way.by_number) {
            return None;
        }
        let differ = |seen: &Way| {
            u8::from(seen.by_text != way.by_text) + u8::from(seen.by_number != way.by_number)
        };
        let most = self.0.iter().max_by_key(|(seen, _)| differ(seen));
        most.map(|(_, step)| step.clone())
    }
}

/// Orders `item:9` before `item:10`: by text, except that consecutive digits count as one number.
fn by_number(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one, other);
    loop {
        let (digits_a, rest_a) = digits(a);
        let (digits_b, rest_b) = digits(b);
        let step = if digits_a.is_empty() || digits_b.is_empty() {
            let (mut chars_a, mut chars_b) = (a.chars(), b.chars());
            let step = chars_a.next().cmp(&chars_b.next());
            (a, b) = (chars_a.as_str(), chars_b.as_str());
            step
        } else {
            (a, b) = (rest_a, rest_b);
            let [digits_a, digits_b] = [digits_a, digits_b].map(|it| it.trim_start_matches('0'));
            (digits_a.len().cmp(&digits_b.len())).then_with(|| digits_a.cmp(digits_b))
        };
        if step.is_ne() {
            return step;
        }
        if a.is_empty() && b.is_empty() {
            return one.cmp(other); // `07` and `7`
        }
    }
}

/// The leading digits of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

impl fmt::Display for NestingSites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} then {}", self.held, self.wanted)
    }
}

impl fmt::Display for Inversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} here, but elsewhere", self.here)?;
        for (index, step) in self.before.iter().enumerate() {
            write!(f, "{} {step}", if index == 0 { "" } else { "," })?;
        }
        if self.here.held.class == self.here.wanted.class {
            f.write_str(" with their keys in the other order")?;
        }
        Ok(())
    }
}
