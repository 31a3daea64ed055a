//! Who waits at a combiner, and how many commands are under way. Pure: no clock, no I/O.
//!
//! Invariant: while somebody waits, at least as many commands are under way as may go out at once, and each of those
//! that end looks for who waits.

use std::collections::VecDeque;

/// One item in so many is an acquire's, if one waits: the releases of locks that were taken together (`acquire_all`) need no
/// acquire to come again.
const ACQUIRES_ONE_IN: usize = 8;

/// Who waits, and is not in a batch yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
pub(super) struct State<T> {
    at_once: usize,
    most: usize,
    /// Commands that their callers sent, and carriers.
    under_way: usize,
    tickets: u64,
    releases: VecDeque<(Ticket, T)>,
    acquires: VecDeque<(Ticket, T)>,
}

impl<T> State<T> {
    /// So many commands `at_once`, and `most` items in one of them.
    pub(super) fn new(at_once: usize, most: usize) -> Self {
        Self {
            at_once,
            most,
            under_way: 0,
            tickets: 0,
            releases: VecDeque::new(),
            acquires: VecDeque::new(),
        }
    }

    /// Takes a slot, if there is one.
    pub(super) fn goes_at_once(&mut self) -> bool {
        let goes = self.under_way < self.at_once;
        self.under_way += usize::from(goes);
        goes
    }

    pub(super) fn wait(&mut self, is_release: bool, item: T) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let line = if is_release {
            &mut self.releases
        } else {
            &mut self.acquires
        };
        line.push_back((ticket, item));
        ticket
    }

    /// A command that its caller sent has ended. `true`: somebody waits, and a carrier has its slot.
    pub(super) fn ended(&mut self) -> bool {
        if self.is_empty() {
            self.under_way -= 1;
        }
        !self.is_empty()
    }

    /// Somebody has waited for long. `true`: it still waits, and a carrier has a slot more.
    pub(super) fn hurry(&mut self, ticket: Ticket) -> bool {
        let waits = self.find(ticket).is_some();
        self.under_way += usize::from(waits);
        waits
    }

    /// What a carrier sends next, releases first, but never alone for ever. Empty: nobody waits, and its slot is free.
    pub(super) fn next_batch(&mut self) -> Vec<T> {
        let kept = self.acquires.len().min(self.most.div_ceil(ACQUIRES_ONE_IN));
        let releases = self.releases.len().min(self.most - kept);
        let acquires = self.acquires.len().min(self.most - releases);
        if releases + acquires == 0 {
            self.under_way -= 1;
        }
        let releases = self.releases.drain(..releases);
        let batch = releases.chain(self.acquires.drain(..acquires));
        batch.map(|(_, item)| item).collect()
    }

    /// A carrier has ended with its runtime: so does the waiting.
    pub(super) fn give_up(&mut self) -> Vec<T> {
        self.under_way -= 1;
        let all = self.releases.drain(..).chain(self.acquires.drain(..));
        all.map(|(_, item)| item).collect()
    }

    /// Somebody goes; `None`: what it wanted is in a batch.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> Option<T> {
        let (is_release, at) = self.find(ticket)?;
        let line = if is_release {
            &mut self.releases
        } else {
            &mut self.acquires
        };
        line.remove(at).map(|(_, item)| item)
    }

    fn find(&self, ticket: Ticket) -> Option<(bool, usize)> {
        let among =
            |line: &VecDeque<(Ticket, T)>| line.binary_search_by_key(&ticket.0, |it| it.0.0);
        let release = among(&self.releases).ok().map(|at| (true, at));
        release.or_else(|| among(&self.acquires).ok().map(|at| (false, at)))
    }

    fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.acquires.is_empty()
    }
}
