//! The waiters of one process: every order of what three waiters, their leaders, a server and time
//! can do to the machine that ships.
//!
//! A step is one that the driver takes under the mutex, and what it leaves to be done is done here.
//! Checked in every state: a waiter that could go on is awake or will be woken, without any timer.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use super::host::{ModelRequest, queue_key, unclear};
use super::local_steps::{
    Answer, Forgets, LEASE, LeaderTask, LocalHost, LocalWaker, OwnAcquire, Step, TokenEnd, Waiter,
    landed, number, polled, request, sent,
};
use crate::client::local_queue::{Grant, LocalQueue, Remote, WaiterId};
use crate::client::queue_state::QueuedWaiter;
use crate::client::tokens::ReleaseBy;
use crate::client::{
    AcquireRefusal, AttemptFault, Client, ClientActions, ClientRules, Heard, LeaderEpoch,
    LeaderTurn, LookReply, Looked, QueueStep, ReadAnswer, ReturnedTo, SentAcquire, Told,
};
use crate::rules::tests::explore::{self, Model, Outcome};
use crate::rules::tests::print::Print;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) const WAITERS: usize = 3;

/// How many acquires may be sent once nothing more goes wrong.
const TOKENS_IN_CALM: u64 = 10;

const HEARD: Heard = Heard {
    is_told: true,
    follows: None,
};

/// What may happen in an exploration.
#[derive(Clone, Copy, Debug)]
pub(super) enum LocalWitness {
    /// A waiter missed its turn.
    PassedOver,
}

impl explore::Witness for LocalWitness {
    fn place(self) -> u8 {
        self as u8
    }
}

pub(super) type LocalSeen = explore::Seen<LocalWitness>;

/// The bounds of an exploration, and what its driver forgets.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalRun {
    pub(super) waiters: usize,
    pub(super) tokens: u64,
    pub(super) ticks: u64,
    /// How often a leader's runtime may end.
    pub(super) ends: u8,
    /// How many hints, and ends of the connection, there may be.
    pub(super) messages: u8,
    /// How often a lock may be handed on.
    pub(super) handoffs: u16,
    /// A leader without a sign of life counts as stuck after two ticks, and the pool may be closed.
    pub(super) stuck: bool,
    pub(super) forgets: Forgets,
}

pub(super) type Queue = LocalQueue<QueuedWaiter<ModelRequest, LocalWaker>>;

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Local {
    pub(super) client: Client<LocalHost>,
    pub(super) waiters: [Waiter; WAITERS],
    pub(super) leaders: BTreeMap<LeaderEpoch, LeaderTask>,
    /// Waiters that once missed their turn: others may go first since then.
    passed: [bool; WAITERS],
    now: u64,
    pub(super) asked: u64,
    /// What became of each token.
    pub(super) ends: BTreeMap<u64, TokenEnd>,
    /// How much may still happen: tokens, ticks, ends of a leader's runtime.
    rest: (u64, u64, u8),
    /// How many hints and ends of the connection may still come.
    messages: u8,
    closes: bool,
    wrong: Option<&'static str>,
}

impl Model for Local {
    type Run = LocalRun;
    type Step = Step;
    type Witness = LocalWitness;

    fn first(run: &LocalRun) -> Self {
        Local::new(run)
    }

    fn steps(&self, _: &LocalRun, steps: &mut Vec<Step>) {
        use Answer::{Granted, Nothing, Queued, Refused, Unclear};
        let answers = [Queued, Granted, Nothing, Unclear, Refused];
        for (who, waiter) in self.waiters.iter().enumerate() {
            match waiter {
                Waiter::Out => steps.push(Step::Enter(who)),
                Waiter::In { woken, own, .. } => {
                    // Without a wake-up, too: every waiter looks once a second.
                    if *woken || self.closes {
                        steps.push(Step::Look(who));
                    }
                    steps.push(Step::Leave(who));
                    match own {
                        Some(OwnAcquire { sent: None, .. }) => {
                            steps.extend([true, false].map(|it| Step::OwnConnected(who, it)));
                        }
                        Some(_) => steps.extend(answers.map(|it| Step::OwnAnswer(who, it))),
                        None => {}
                    }
                }
                Waiter::Holds(_) => steps.push(Step::Release(who)),
                Waiter::Leaving { .. } => steps.push(Step::Dropped(who)),
                Waiter::Gone => {}
            }
        }
        for (epoch, task) in &self.leaders {
            match task {
                LeaderTask::Ready => steps.push(Step::Lead(*epoch)),
                LeaderTask::Connecting => {
                    steps.extend([true, false].map(|it| Step::Connected(*epoch, it)));
                }
                LeaderTask::Sleeping { until, woken } if *woken || *until <= self.at() => {
                    steps.push(Step::Lead(*epoch));
                }
                LeaderTask::Sleeping { .. } => {}
                LeaderTask::Acquiring(_) | LeaderTask::Polling(_) => {
                    steps.extend(answers.map(|it| Step::Answer(*epoch, it)));
                }
            }
            if self.rest.2 > 0 {
                steps.push(Step::RuntimeEnds(*epoch));
            }
        }
        if self.awaited().is_some() {
            steps.push(Step::Push);
            steps.extend((self.messages > 0).then_some(Step::Hint));
        }
        if self.queue().is_some() && self.messages > 0 {
            steps.push(Step::Disconnected);
        }
        if self.rest.1 > 0 {
            steps.push(Step::Tick);
        }
        if self.closes && !self.client.is_closed {
            steps.push(Step::Close);
        }
    }

    fn step(&mut self, run: &LocalRun, step: Step, seen: &mut LocalSeen) -> Outcome {
        let wrong = self.act(step, run.forgets).or_else(|| self.wrong());
        if self.passed.contains(&true) {
            seen.saw(LocalWitness::PassedOver);
        }
        wrong.into()
    }

    fn rests(
        &self,
        run: &LocalRun,
        n: usize,
        _: &mut LocalSeen,
    ) -> Result<(), (&'static str, Vec<Step>)> {
        if let Some(wrong) = self.wrong_by_news_of_others() {
            return Err((wrong, Vec::new()));
        }
        if n.is_multiple_of(10) {
            self.serves_all(run, Answer::Queued)?;
            self.serves_all(run, Answer::Granted)?;
        }
        Ok(())
    }

    fn fingerprint(&self) -> u128 {
        let mut print = Print::default();
        self.hash(&mut print);
        print.value()
    }

    fn describe(&self) -> String {
        format!("{:?} | {:?}", self.waiters, self.leaders)
    }
}

impl Local {
    pub(super) fn new(bounds: &LocalRun) -> Self {
        let rules = ClientRules {
            handoff: Handoff {
                most: bounds.handoffs,
                within: LEASE,
                part: 1,
            },
            stuck_after: if bounds.stuck {
                Duration::from_secs(2)
            } else {
                Duration::MAX
            },
            ..ClientRules::of_test(Duration::from_secs(1), Duration::from_millis(900))
        };
        Self {
            client: Client::new(LocalHost, rules),
            waiters: std::array::from_fn(|who| {
                if who < bounds.waiters {
                    Waiter::Out
                } else {
                    Waiter::Gone
                }
            }),
            leaders: BTreeMap::new(),
            passed: [false; WAITERS],
            now: 0,
            asked: 0,
            ends: BTreeMap::new(),
            rest: (bounds.tokens, bounds.ticks, bounds.ends),
            messages: bounds.messages,
            closes: bounds.stuck,
            wrong: None,
        }
    }

    pub(super) fn at(&self) -> Moment {
        Moment::from_nanos((100 + self.now) * 1_000_000_000)
    }

    pub(super) fn queue(&self) -> Option<&Queue> {
        Some(&self.client.queues.by_key.get(&queue_key())?.queue)
    }

    pub(super) fn called(&self) -> Option<usize> {
        Some(self.queue()?.called()?.request.who)
    }

    pub(super) fn awaited(&self) -> Option<Token> {
        match self.queue()?.remote() {
            Remote::Acquiring(token) | Remote::Queued { token, .. } => Some(*token),
            _ => None,
        }
    }

    /// Takes a step; returns what is wrong with it.
    fn act(&mut self, step: Step, forgets: Forgets) -> Option<&'static str> {
        match step {
            Step::Enter(who) => self.enter(who, forgets),
            Step::Look(who) => self.look(who, None, forgets),
            Step::Leave(who) => self.leave(who, forgets),
            Step::Dropped(who) => {
                let left = std::mem::replace(&mut self.waiters[who], Waiter::Gone);
                if let Waiter::Leaving { own, inherited } = left {
                    if inherited {
                        self.goes_on(own);
                    } else {
                        self.give_up(&own, forgets);
                    }
                }
            }
            Step::Release(who) => self.release(who, forgets),
            Step::OwnAnswer(who, answer) => {
                let Waiter::In { own, .. } = &mut self.waiters[who] else {
                    return None;
                };
                let own = own.take()?;
                self.look(who, Some((own, Some(answer))), forgets);
            }
            Step::OwnConnected(who, is_connected) => {
                let Waiter::In { own: Some(own), .. } = &self.waiters[who] else {
                    return None;
                };
                let sent = self.sends(own.by, is_connected, forgets);
                let Waiter::In { own, .. } = &mut self.waiters[who] else {
                    return None;
                };
                match (own, sent) {
                    (Some(own), Some(sent)) => own.sent = Some(sent),
                    (own, _) => {
                        let own = own.take()?;
                        self.look(who, Some((own, None)), forgets);
                    }
                }
            }
            Step::Connected(epoch, is_connected) => {
                let sent = self.sends(epoch, is_connected, forgets);
                let task = sent.map_or(LeaderTask::Ready, LeaderTask::Acquiring);
                self.leaders.insert(epoch, task);
            }
            Step::Lead(epoch) => self.lead(epoch, forgets),
            Step::Answer(epoch, answer) => self.answer(epoch, answer, forgets),
            Step::Push | Step::Hint => {
                let (key, token) = (queue_key(), self.awaited()?);
                let value = number(token).to_string();
                let grant = Grant::in_turn(self.at(), LEASE, 1, 1);
                let grant = (step == Step::Push).then_some(grant);
                self.messages -= u8::from(grant.is_none());
                self.tell(forgets, |client, told| {
                    client.pushed((key.key(), token, &value), grant, told)
                });
            }
            Step::Disconnected => {
                self.messages -= 1;
                self.tell(forgets, |client, told| {
                    client.disconnected(&queue_key(), told);
                });
            }
            Step::Tick => {
                self.now += 1;
                self.rest.1 -= 1;
            }
            Step::Calm => {
                self.rest = (self.asked + TOKENS_IN_CALM, u64::MAX, 0);
                (self.messages, self.closes) = (0, false);
            }
            Step::RuntimeEnds(epoch) => {
                self.rest.2 -= 1;
                let task = self.leaders.remove(&epoch);
                if let Some(LeaderTask::Acquiring(sent)) = task {
                    self.unread(&sent, forgets);
                }
                self.gone(epoch, forgets);
            }
            Step::Close => {
                self.tell(forgets, |client, _| client.close());
                self.tell_queue(forgets, |queue| queue.refuse_all(&AcquireRefusal::ShutDown));
            }
        }
        self.wrong.take()
    }

    /// Tells the machine what has happened, and carries out what follows.
    fn tell<T>(
        &mut self,
        forgets: Forgets,
        event: impl FnOnce(&mut Client<LocalHost>, Told<'_, LocalHost>) -> T,
    ) -> T {
        let now = self.at();
        let before = self.client.tokens.all();
        let mut out = ClientActions::default();
        let reply = event(&mut self.client, (now, &mut out));
        for token in out.unowned.into_iter().flatten() {
            self.cleaned_up(token);
        }
        for token in before {
            let number = number(token);
            if !self.client.tokens.all().contains(&token) && !self.ends.contains_key(&number) {
                self.ends.insert(number, TokenEnd::Nothing);
            }
        }
        for waker in out.wake.into_iter().chain(out.wake_too) {
            self.wake(waker, forgets);
        }
        reply
    }

    fn tell_queue<T: Default>(
        &mut self,
        forgets: Forgets,
        event: impl FnOnce(&mut QueueStep<'_, LocalHost>) -> T,
    ) -> T {
        self.tell(forgets, |client, told| client.at(&queue_key(), told, event))
    }

    /// The watchdog does that, sooner or later.
    fn cleaned_up(&mut self, token: Token) {
        self.client.tokens.not_granted(token);
        self.end(token, TokenEnd::CleanedUp);
    }

    fn wake(&mut self, waker: LocalWaker, forgets: Forgets) {
        match waker {
            LocalWaker::Waiter(who) => {
                if let Waiter::In { woken, .. } = &mut self.waiters[who]
                    && forgets != Forgets::ToWakeWaiters
                {
                    *woken = true;
                }
            }
            LocalWaker::Leader(epoch) => {
                if let Some(LeaderTask::Sleeping { woken, .. }) = self.leaders.get_mut(&epoch)
                    && forgets != Forgets::ToWakeTheLeader
                {
                    *woken = true;
                }
            }
        }
    }

    fn end(&mut self, token: Token, end: TokenEnd) {
        if self.ends.insert(number(token), end).is_some() {
            self.wrong = Some("a token left twice");
        }
    }

    fn start(&mut self, epoch: Option<LeaderEpoch>, forgets: Forgets) {
        if let Some(epoch) = epoch
            && forgets != Forgets::ToStartTheLeader
        {
            self.leaders.insert(epoch, LeaderTask::Ready);
        }
    }
}

/// Waiters.
impl Local {
    fn enter(&mut self, who: usize, forgets: Forgets) {
        let waker = LocalWaker::Waiter(who);
        let mut first = None;
        let entered = self.tell(forgets, |client, told| {
            client.enter(&queue_key(), request(who), &waker, told, |epoch| {
                first = Some(epoch);
            })
        });
        self.waiters[who] = Waiter::In {
            waiter_id: entered.waiter_id,
            woken: false,
            own: first.map(|by| OwnAcquire { by, sent: None }),
        };
        self.start(entered.lead, forgets);
        if let Some(((), sender)) = entered.moved
            && forgets != Forgets::ToMoveTheFirstAcquire
        {
            self.moves();
            if let Some(sender) = sender {
                self.wake(sender, forgets);
            }
        }
        if self.client.is_closed {
            self.look(who, None, forgets);
        }
    }

    /// The acquire that its waiter sends moves to a task.
    fn moves(&mut self) {
        for waiter in &mut self.waiters {
            let own = match waiter {
                Waiter::In { own, .. } => own.take(),
                Waiter::Leaving { own, .. } => {
                    let own = own.clone();
                    *waiter = Waiter::Gone;
                    Some(own)
                }
                _ => None,
            };
            if let Some(own) = own {
                self.goes_on(own);
                return;
            }
        }
    }

    /// An acquire goes on in a task.
    fn goes_on(&mut self, own: OwnAcquire) {
        let task = own
            .sent
            .map_or(LeaderTask::Connecting, LeaderTask::Acquiring);
        self.leaders.insert(own.by, task);
    }

    /// Sends an acquire, unless it could not connect. Without a token that is left, everybody is
    /// refused.
    fn sends(
        &mut self,
        epoch: LeaderEpoch,
        is_connected: bool,
        forgets: Forgets,
    ) -> Option<SentAcquire> {
        if !is_connected {
            self.tell_queue(forgets, |queue| queue.unsent(epoch, unclear(false)));
            return None;
        }
        if self.asked == self.rest.0 {
            let refusal = AttemptFault {
                may_pass: false,
                ..unclear(false)
            };
            self.tell_queue(forgets, |queue| queue.unsent(epoch, refusal));
            return None;
        }
        self.asked += 1;
        let sent = sent(self.asked, self.at());
        let sends = self.tell(forgets, |client, told| {
            client.sending((&queue_key(), epoch), &sent, told)
        });
        let sends = sends || forgets == Forgets::ThatItMayNotSend;
        if !sends {
            self.end(sent.token, TokenEnd::Nothing);
        }
        sends.then_some(sent)
    }

    fn look(&mut self, who: usize, read: Option<(OwnAcquire, Option<Answer>)>, forgets: Forgets) {
        let Waiter::In { waiter_id, .. } = self.waiters[who] else {
            return;
        };
        let refused = self
            .client
            .queues
            .by_key
            .values()
            .flat_map(|it| &it.refused);
        let refused: Vec<_> = refused.map(|(waiter_id, _)| *waiter_id).collect();
        let mut before_me = self.waiters.iter().zip(self.passed);
        let before_me = before_me.any(|(it, passed)| {
            let earlier = |theirs: &WaiterId| *theirs < waiter_id && !refused.contains(theirs);
            !passed && matches!(it, Waiter::In { waiter_id, .. } if earlier(waiter_id))
        });
        let (own, answer) = read.unzip();
        let answer = answer.flatten();
        let read = own.as_ref().map(|own| ReadAnswer {
            leader_epoch: own.by,
            answer: (own.sent.as_ref().zip(answer))
                .map(|(sent, answer)| (sent, landed(sent, answer), HEARD)),
        });
        let (request, waker) = (request(who), LocalWaker::Waiter(who));
        let LookReply {
            looked,
            lead,
            answered,
            ..
        } = self.tell_queue(forgets, |queue| {
            queue.look(&request, (waiter_id, &waker), read)
        });
        if let Some(sent) = own.and_then(|own| own.sent)
            && answered.cancels_behind
        {
            self.cleaned_up(sent.token);
        }
        self.start(lead, forgets);
        let left = match looked {
            Looked::Wait => {
                if let Waiter::In { woken, .. } = &mut self.waiters[who] {
                    *woken = false;
                }
                return;
            }
            Looked::Yours(_, token) => {
                if before_me {
                    self.wrong = Some("not first in line");
                }
                if self.client.is_closed {
                    self.wrong = Some("granted by a closed pool");
                }
                Waiter::Holds(token)
            }
            Looked::TooLate => Waiter::Out,
            Looked::Refused(_) => Waiter::Gone,
        };
        // Its own acquire may still be on its way, if a push was faster.
        if let Waiter::In { own: Some(own), .. } = std::mem::replace(&mut self.waiters[who], left) {
            if self.queue().is_some_and(Queue::has_waiters) {
                self.goes_on(own);
            } else {
                self.give_up(&own, forgets);
            }
        }
    }

    fn leave(&mut self, who: usize, forgets: Forgets) {
        let left = std::mem::replace(&mut self.waiters[who], Waiter::Gone);
        let Waiter::In { waiter_id, own, .. } = left else {
            return;
        };
        let inherited = self.tell_queue(forgets, |queue| queue.leave(waiter_id));
        if let Some(own) = own {
            self.waiters[who] = Waiter::Leaving { own, inherited };
        }
    }

    /// An acquire is dropped, and with it its leader.
    fn give_up(&mut self, own: &OwnAcquire, forgets: Forgets) {
        if let Some(sent) = &own.sent {
            self.unread(sent, forgets);
        }
        self.gone(own.by, forgets);
    }

    fn unread(&mut self, sent: &SentAcquire, forgets: Forgets) {
        if forgets == Forgets::ToSayThatNobodyReadsTheAnswer {
            return;
        }
        let key = queue_key();
        if self.tell(forgets, |client, told| {
            client.ended(Some(&key), sent, (true, None), told)
        }) {
            self.cleaned_up(sent.token);
        }
    }

    fn gone(&mut self, epoch: LeaderEpoch, forgets: Forgets) {
        if forgets != Forgets::ToSayThatTheLeaderIsGone {
            self.tell_queue(forgets, |queue| queue.leader_gone(epoch));
        }
    }

    fn release(&mut self, who: usize, forgets: Forgets) {
        let Waiter::Holds(token) = self.waiters[who] else {
            return;
        };
        self.waiters[who] = Waiter::Gone;
        let key = queue_key();
        let returned = self.tell(forgets, |client, told| {
            client.give_back((&key, token), true, told, || {})
        });
        match returned {
            ReturnedTo::HandedOn => {}
            ReturnedTo::ToServer(ReleaseBy::Caller { .. }) => {
                self.end(token, TokenEnd::Taken);
                self.client.tokens.released(token);
            }
            ReturnedTo::ToServer(_) => self.wrong = Some("it was held until then"),
        }
    }
}

/// Leaders.
impl Local {
    fn lead(&mut self, epoch: LeaderEpoch, forgets: Forgets) {
        let (called, waker) = (self.called(), LocalWaker::Leader(epoch));
        let turn = self.tell_queue(forgets, |queue| queue.lead(epoch, &waker));
        if let Some(who) = called.filter(|_| self.called() != called) {
            self.passed[who] = true; // it has not claimed its grant in time
        }
        let task = match turn {
            LeaderTurn::Acquire(_) => LeaderTask::Connecting,
            LeaderTurn::Poll { attempt, .. } => LeaderTask::Polling(attempt),
            LeaderTurn::Sleep(until) => LeaderTask::Sleeping {
                until,
                woken: false,
            },
            LeaderTurn::Rest => {
                self.leaders.remove(&epoch);
                return;
            }
        };
        self.leaders.insert(epoch, task);
    }

    fn answer(&mut self, epoch: LeaderEpoch, answer: Answer, forgets: Forgets) {
        let Some(task) = self.leaders.insert(epoch, LeaderTask::Ready) else {
            return;
        };
        match task {
            LeaderTask::Acquiring(sent) => {
                let answer = (&sent, landed(&sent, answer));
                let answered =
                    self.tell_queue(forgets, |queue| queue.answered(epoch, answer, HEARD));
                if answered.cancels_behind {
                    self.cleaned_up(sent.token);
                }
            }
            LeaderTask::Polling(attempt) => {
                let (of, answer) = ((attempt.token, self.at()), polled(answer));
                let heard = (true, true);
                self.tell_queue(forgets, |queue| queue.polled(epoch, of, answer, heard));
            }
            LeaderTask::Ready | LeaderTask::Connecting | LeaderTask::Sleeping { .. } => {}
        }
    }
}
