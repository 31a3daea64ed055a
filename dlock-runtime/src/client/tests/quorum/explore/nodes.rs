//! What happens at the nodes: they execute commands, crash and restart, their clocks step.

use std::rc::Rc;

use super::client::{Answer, Client, Message, Way, What};
use super::judge;
use super::mutants::Mutant;
use super::run::{Fault, Proposals, Run, TICK, TICK_MICROS};
use super::seen::{Seen, Witness};
use super::step::Data;
use super::world::{KEY, World, other_claim};
use crate::client::quorum::nodes::{NodeId, NodeSet};
use crate::rules::ballots::{Adopted, Ballot, Outvoted, Vote};
use crate::rules::commands::{Busy, Claim, Keep, Left, PushedGrant, Renewal, Renewed};
use crate::rules::{Publish, Reached, Server};
use crate::values::entry::{self, Letter};
use crate::values::ttl::Ttl;

/// Nobody waits for a grant or a hint.
pub(super) struct Nobody;

impl Publish for Nobody {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        Reached::Nobody
    }
}

impl World {
    /// The nodes that a ballot is sent to.
    pub(super) fn voting(&self) -> NodeSet {
        let votes = |node: &NodeId| {
            let it = self.node(*node);
            it.is_up && it.votes_from <= self.tick
        };
        self.ids().filter(votes).collect()
    }

    pub(super) fn executes(
        &mut self,
        run: &Run,
        client: usize,
        index: usize,
        seen: &mut Seen,
    ) -> Option<&'static str> {
        let message = self.clients[client].messages[index].clone();
        let token = (client, message.token);
        let others = judge::others(self, message.node, token);
        let answer = self.answer_to(run, client, &message, seen);
        let it = Rc::make_mut(&mut self.clients[client]);
        if it.awaits(&message) {
            it.messages[index].phase = Way::Back(answer);
        } else {
            it.messages.remove(index);
            if let Answer::Vote(Vote::Granted { .. }) = answer {
                seen.saw(Witness::GrantedAfterGiveUp);
            }
        }
        judge::judge_command(run, self, message.node, (token, &others))
    }

    fn answer_to(
        &mut self,
        run: &Run,
        client: usize,
        message: &Message,
        seen: &mut Seen,
    ) -> Answer {
        let (node, time) = (message.node, self.time(message.node));
        let claim = self.claim((client, message.token)).clone();
        let holders = self.holders(node).into_iter();
        let holders: Vec<Claim> = holders.map(|whose| self.claim(whose).clone()).collect();
        let server = &mut self.node_mut(node).server;
        match message.what {
            What::Ballot {
                proposal,
                not_after,
            } => {
                let ballot = Ballot {
                    claim,
                    lease: run.lease(),
                    not_after,
                    proposal: if run.is(Mutant::NodesDrawFromTime) {
                        time
                    } else {
                        proposal
                    },
                    hint_to: "".into(),
                };
                let mut vote = admits_anyway(run, server, &ballot, &holders, time)
                    .unwrap_or_else(|| server.vote(&ballot, time, &mut Nobody));
                match &mut vote {
                    Vote::Granted { epoch, .. } if run.is(Mutant::ProposalUnchecked) => {
                        *epoch = proposal;
                    }
                    Vote::Late { .. } => seen.saw(Witness::LateBallot),
                    _ => {}
                }
                Answer::Vote(what_counts(run, vote))
            }
            What::Adopt { epoch, counts_for } => {
                let (last, of_hold) = (server.last_epoch(), server.stored_epoch(KEY));
                let answer = match (counts_for, holders.first()) {
                    (None, _) => server.adopt(&claim, epoch, time),
                    (Some(_), Some(holder)) => server.adopt(holder, epoch, time),
                    (Some(_), None) => Adopted::Gone,
                };
                if run.is(Mutant::AdoptLowers) && answer == Adopted::Yes {
                    server.set_last_epoch(epoch);
                }
                if let (true, Some(before)) = (run.is(Mutant::HoldKeepsItsEpoch), of_hold) {
                    server.set_epoch_of_hold(KEY, before, time);
                }
                seen.saw(match answer {
                    Adopted::Yes if last > epoch => Witness::AdoptedBelow,
                    Adopted::Yes => Witness::Adopted,
                    Adopted::Gone => Witness::AdoptGone,
                });
                Answer::Adopted(match answer {
                    Adopted::Gone if run.is(Mutant::GoneCounts) => Adopted::Yes,
                    _ => answer,
                })
            }
            What::Renew { .. } => {
                let yes = renews(server, run, claim, time);
                if yes && run.is(Mutant::RenewsTheSet) {
                    for other in holders {
                        renews(server, run, other, time);
                    }
                }
                Answer::Ours(yes)
            }
            What::Reseed {
                epoch,
                reads,
                not_after,
                ..
            } => {
                let reader = entry::reader_form(&claim.value).filter(|_| reads);
                let value = reader.map_or(claim.value, Into::into);
                let ballot = Ballot {
                    claim: Claim { value, ..claim },
                    lease: run.lease(),
                    not_after,
                    proposal: epoch,
                    hint_to: "".into(),
                };
                let vote = server.vote(&ballot, time, &mut Nobody);
                Answer::Vote(what_counts(run, vote))
            }
            What::Downgrade { ticks } => {
                let ttl = Ttl::new(TICK * ticks).expect("a ttl in range");
                Answer::Ours(server.downgrade(&claim, ttl, time, &mut Nobody))
            }
        }
    }

    pub(super) fn ticks(&mut self, run: &Run, seen: &mut Seen) {
        self.tick += 1;
        for node in self.ids() {
            if self.ends_by(node, self.time(node)) {
                self.tidy(node);
                seen.saw(Witness::Expired);
            }
        }
        self.forget_what_can_do_nothing(run);
    }

    /// Messages whose answer nobody reads and that change nothing at their node any more, and
    /// cancels at nodes where nothing of their token is or can come to be.
    pub(super) fn forget_what_can_do_nothing(&mut self, run: &Run) {
        for at in 0..self.clients.len() {
            let client = &self.clients[at];
            let counts = |it: &Message| client.awaits(it) || self.may_do_something(run, client, it);
            if !client.messages.iter().all(counts) {
                let keep: Vec<bool> = client.messages.iter().map(counts).collect();
                let mut keep = keep.into_iter();
                let client = Rc::make_mut(&mut self.clients[at]);
                client.messages.retain(|_| keep.next().unwrap_or(true));
            }
            self.forget_cancels(run, at);
        }
    }

    fn forget_cancels(&mut self, run: &Run, at: usize) {
        if run.has(Fault::Back) {
            return;
        }
        let client = &self.clients[at];
        let is_empty = |token, node: NodeId| {
            !self.is_at(node, (at, token)) && !self.has_ballot(run, client, token, node)
        };
        let mut open = client.cancelled.iter().map(|it| (it, it.open.iter()));
        if !open.any(|(it, mut open)| open.any(|node| is_empty(it.token, node))) {
            return;
        }
        let mut cancelled = client.cancelled.clone();
        for it in &mut cancelled {
            it.open = it
                .open
                .iter()
                .filter(|node| !is_empty(it.token, *node))
                .collect();
        }
        cancelled.retain(|it| !it.open.is_empty());
        Rc::make_mut(&mut self.clients[at]).cancelled = cancelled;
    }

    fn may_do_something(&self, run: &Run, client: &Client, message: &Message) -> bool {
        let (token, node) = (message.token, message.node);
        match &message.what {
            What::Ballot { .. } | What::Reseed { .. } => self.may_create(run, message),
            What::Adopt {
                counts_for: Some(_),
                ..
            } => true,
            What::Adopt { .. } | What::Renew { .. } | What::Downgrade { .. } => {
                self.is_at(node, (client.at, token)) || self.has_ballot(run, client, token, node)
            }
        }
    }

    /// Whether a ballot for this token may yet create something there.
    fn has_ballot(&self, run: &Run, client: &Client, token: u16, node: NodeId) -> bool {
        let is_it = |it: &&Message| (it.token, it.node) == (token, node);
        let mut messages = client.messages.iter().filter(is_it);
        messages.any(|it| self.may_create(run, it))
    }

    fn may_create(&self, run: &Run, message: &Message) -> bool {
        let (What::Ballot { not_after, .. } | What::Reseed { not_after, .. }) = message.what else {
            return false;
        };
        message.phase == Way::Out && (run.has(Fault::Back) || self.time(message.node) <= not_after)
    }

    /// Its connections die with it.
    pub(super) fn goes_down(&mut self, node: NodeId) {
        self.budget -= 1;
        self.node_mut(node).is_up = false;
        for client in &mut self.clients {
            if !client.messages.iter().any(|it| it.node == node) {
                continue;
            }
            let client = Rc::make_mut(client);
            for message in &mut client.messages {
                if message.node == node && message.phase == Way::Out {
                    message.phase = Way::Cut;
                }
            }
            client.forget_answers();
        }
    }

    pub(super) fn comes_up(&mut self, run: &Run, node: NodeId, data: Data, seen: &mut Seen) {
        let from = self.tick + run.quarantine;
        let it = self.node_mut(node);
        it.is_up = true;
        it.process = it.process.saturating_add(u8::from(run.reseeds));
        if run.reseeds {
            it.votes_from = from; // whatever it has kept: nobody can tell
        }
        if data == Data::Lost {
            it.server = Server::default();
            it.votes_from = from;
            seen.saw(Witness::RestartedEmpty);
        } else {
            seen.saw(Witness::RestartedWithData);
        }
        let (time, now) = (self.time(node), self.now());
        for client in &mut self.clients {
            if client.is_alive {
                Rc::make_mut(client).offsets[node.index()].heard(time, now);
            }
        }
    }

    pub(super) fn clock_steps(&mut self, run: &Run, node: NodeId, by: i64, seen: &mut Seen) {
        self.budget -= 1;
        self.node_mut(node).skew += by;
        self.tidy(node);
        self.forget_what_can_do_nothing(run);
        seen.saw(Witness::ClockStepped);
    }

    pub(super) fn ends_early(&mut self, node: NodeId, seen: &mut Seen) {
        let soon = self.time(node) + TICK_MICROS;
        self.node_mut(node).server.read(KEY, soon);
        seen.saw(Witness::DriftedEarly);
    }

    /// The other lock is released at once: only its number stays.
    pub(super) fn draws_for_another_key(&mut self, run: &Run, node: NodeId) {
        self.budget -= 1;
        let time = self.time(node);
        let claim = other_claim();
        let ballot = Ballot {
            claim: claim.clone(),
            lease: run.lease(),
            not_after: time,
            proposal: 0,
            hint_to: "".into(),
        };
        let server = &mut self.node_mut(node).server;
        server.vote(&ballot, time, &mut Nobody);
        server.cancel(&claim, Keep::NOT, time, time, &mut Nobody);
    }
}

/// A vote without what no client of the model reads, so that it makes no difference.
fn what_counts(run: &Run, vote: Vote) -> Vote {
    let clocks_step = run.has(Fault::Forward) || run.has(Fault::Back);
    let heard = |time| if clocks_step { time } else { 0 };
    match vote {
        Vote::Granted { time, epoch } => Vote::Granted {
            time: heard(time),
            epoch,
        },
        Vote::Late { time } => Vote::Late { time: heard(time) },
        Vote::Busy(Outvoted {
            busy, last_epoch, ..
        }) => Vote::Busy(Outvoted {
            busy: Busy {
                time: heard(busy.time),
                left: Left::Endless,
                value: String::new(),
            },
            last_epoch: match run.proposals {
                Proposals::Any(_) => 0,
                Proposals::Time(_) => last_epoch,
            },
            rank: 0,
        }),
        Vote::WrongKind { time, .. } => Vote::WrongKind {
            time: heard(time),
            there: String::new(),
        },
    }
}

/// A vote for a claim that must not hold the lock beside those that do.
fn admits_anyway(
    run: &Run,
    server: &mut Server,
    ballot: &Ballot,
    holders: &[Claim],
    time: u64,
) -> Option<Vote> {
    let is = |claim: &Claim, letter| entry::letter_of(&claim.value) == Some(letter);
    let holder = holders.first().filter(|_| time <= ballot.not_after)?;
    let admits = match run.mutant? {
        Mutant::ReaderBesideWriter => {
            is(&ballot.claim, Letter::Reader) && is(holder, Letter::Writer)
        }
        Mutant::AnyoneBesideOwner => is(holder, Letter::Owner),
        _ => false,
    };
    let epoch = server.last_epoch() + 1;
    admits.then(|| {
        let until = time + run.lease().as_millis() * 1000;
        server.put_entry(KEY, &ballot.claim.value, until, time);
        server.set_last_epoch(epoch);
        Vote::Granted { time, epoch }
    })
}

fn renews(server: &mut Server, run: &Run, claim: Claim, time: u64) -> bool {
    let ttl = run.lease();
    server.renew(&Renewal { claim, ttl }, time) == Renewed::Yes
}

impl World {
    pub(super) fn begins_to_evict(&mut self, client: usize) {
        self.budget -= 1;
        let token = self.clients[client].current.as_ref().map(|it| it.token);
        self.evicted = token.map(|token| ((client, token), NodeSet::NONE));
    }

    /// The evicted lock's entry at a node goes.
    pub(super) fn evicts_at(&mut self, run: &Run, node: NodeId, seen: &mut Seen) {
        let Some((whose, mut done)) = self.evicted else {
            return;
        };
        let (claim, time) = (self.claim(whose).clone(), self.time(node));
        let server = &mut self.node_mut(node).server;
        server.cancel(&claim, Keep::NOT, 0, time, &mut Nobody);
        done.insert(node);
        self.evicted = Some((whose, done));
        if self.is_evicted_everywhere() {
            seen.saw(Witness::Evicted);
        }
        self.forget_what_can_do_nothing(run);
    }

    pub(super) fn is_evicted_everywhere(&self) -> bool {
        self.evicted
            .is_some_and(|(_, done)| done.len() == self.nodes.len())
    }
}
