//! A lock that is taken by its key alone while its slot moves from one node of a cluster to another,
//! explored: every order of the steps of two clients, of the administrator who moves the keys or
//! gives the move up, and of leases that end. What a node executes, and what it answers instead, is
//! by the rules of Redis Cluster. The steps of a client are those of `link/redis/link/moving.rs`.

use std::hash::Hash;

use super::explore::{self, Bad, Model, Outcome, Row, catch, hold};
use super::print::Print;

const SOURCE: usize = 0;
const TARGET: usize = 1;

/// So often the administrator begins.
const MOVES: u8 = 2;

type Token = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Variant {
    AsShipped,
    /// Draws without a look at its key behind the take.
    DoesNotLook,
    /// Believes what it drew, without a look at its key behind that.
    DoesNotConfirm,
    /// Draws the epoch before it takes the lock.
    DrawsFirst,
}

/// What a node knows of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    Serves,
    Migrates,
    Imports,
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    slot: Slot,
    lock: Option<Token>,
    counter: Option<u8>,
}

/// A node's answer instead of the command's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Redirect {
    Ask,
    Moved,
    TryAgain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The script over all keys of the lock.
    Whole,
    Take,
    Look,
    Draw,
    Confirm,
    Cancel,
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Client {
    Idle,
    /// Its next command goes to this node.
    Asks {
        stage: Stage,
        node: usize,
        asking: bool,
        epoch: u8,
    },
    Holds,
}

#[derive(Clone, Debug, Hash)]
struct World {
    nodes: [Node; 2],
    clients: [Client; 2],
    /// The current attempt of each client; it is also its token, with the client's number.
    attempts: [u8; 2],
    /// A command that its client gave up waiting for: it may be executed yet, until it is late.
    abandoned: [Option<(Stage, usize, bool)>; 2],
    late: [bool; 2],
    /// It drew its epoch without being the holder.
    drew_as_none: [bool; 2],
    /// An administrator may take one lock from its holder.
    evicted: bool,
    begun: u8,
    /// The highest epoch that was drawn; a counter that is lost begins above it.
    drawn: u8,
    /// The highest epoch of a holder.
    highest: u8,
    broken: Option<&'static str>,
}

impl World {
    fn new() -> Self {
        let node = |slot| Node {
            slot,
            lock: None,
            counter: None,
        };
        Self {
            nodes: [node(Slot::Serves), node(Slot::Elsewhere)],
            clients: [Client::Idle, Client::Idle],
            attempts: [0; 2],
            abandoned: [None; 2],
            late: [false; 2],
            drew_as_none: [false; 2],
            evicted: false,
            begun: 0,
            drawn: 0,
            highest: 0,
            broken: None,
        }
    }

    fn token(&self, client: usize) -> Token {
        self.attempts[client] * 2 + u8::from(client == 1)
    }

    /// `is_there`: the keys of the command are at the node.
    fn admits(&self, node: usize, asking: bool, is_there: bool) -> Result<(), Redirect> {
        match self.nodes[node].slot {
            Slot::Serves => Ok(()),
            Slot::Migrates if is_there => Ok(()),
            Slot::Migrates => Err(Redirect::Ask),
            Slot::Imports if asking => Ok(()),
            Slot::Imports | Slot::Elsewhere => Err(Redirect::Moved),
        }
    }

    fn draw(&mut self, node: usize) -> u8 {
        let counter = &mut self.nodes[node].counter;
        self.drawn = self.drawn.max(counter.unwrap_or(self.drawn)) + 1;
        *counter = Some(self.drawn);
        self.drawn
    }

    /// Executes a command that creates; returns whether the lock was taken, and the epoch.
    fn create(
        &mut self,
        client: usize,
        (stage, node, asking): (Stage, usize, bool),
    ) -> Result<Option<u8>, Redirect> {
        let Node { lock, counter, .. } = &self.nodes[node];
        let is_whole = stage == Stage::Whole;
        let is_there = lock.is_some() && (counter.is_some() || !is_whole);
        match self.admits(node, asking, is_there) {
            Err(Redirect::Ask) if is_whole => return Err(Redirect::TryAgain),
            admitted => admitted?,
        }
        if self.nodes[node].lock.is_some() {
            return Ok(None);
        }
        self.nodes[node].lock = Some(self.token(client));
        Ok(Some(if is_whole { self.draw(node) } else { 0 }))
    }

    fn give_up(&mut self, client: usize) {
        self.clients[client] = asks(Stage::Cancel, SOURCE, 0);
    }

    fn hold(&mut self, client: usize, epoch: u8) {
        if self.drew_as_none[client] {
            self.broken = Some("the lock was lost before its epoch was drawn");
        }
        if self.clients[1 - client] == Client::Holds && !self.evicted {
            self.broken = Some("two hold the lock");
        }
        if epoch <= self.highest {
            self.broken = Some("an epoch is not above those of earlier holders");
        }
        self.highest = epoch;
        self.clients[client] = Client::Holds;
    }

    /// A client's next command is executed and answered.
    fn executes(&mut self, variant: Variant, client: usize) {
        let Client::Asks {
            stage,
            node,
            asking,
            epoch,
        } = self.clients[client]
        else {
            return;
        };
        let (ours, there) = (Some(self.token(client)), self.nodes[node].lock);
        let (is_there, is_ours) = (there.is_some(), there == ours);
        let next = match stage {
            Stage::Whole | Stage::Take => {
                let taken = self.create(client, (stage, node, asking));
                taken.map(|taken| match (taken, stage, variant) {
                    (None, _, _) => Client::Idle,
                    (Some(drawn), Stage::Whole, _) => {
                        self.hold(client, drawn);
                        Client::Holds
                    }
                    (Some(_), _, Variant::DrawsFirst) => asks(Stage::Confirm, SOURCE, epoch),
                    (Some(_), _, Variant::DoesNotLook) => asks(Stage::Draw, SOURCE, 0),
                    (Some(_), _, _) => asks(Stage::Look, SOURCE, 0),
                })
            }
            Stage::Look => self.admits(node, asking, is_there).map(|()| {
                let then = if is_ours { Stage::Draw } else { Stage::Cancel };
                asks(then, SOURCE, 0)
            }),
            Stage::Draw => {
                let is_there = self.nodes[node].counter.is_some();
                self.admits(node, asking, is_there).map(|()| {
                    let epoch = self.draw(node);
                    let holds = self.nodes.iter().any(|it| it.lock == ours);
                    self.drew_as_none[client] = !holds && variant != Variant::DrawsFirst;
                    match variant {
                        Variant::DrawsFirst => asks(Stage::Take, SOURCE, epoch),
                        Variant::DoesNotConfirm => {
                            self.hold(client, epoch);
                            Client::Holds
                        }
                        _ => asks(Stage::Confirm, SOURCE, epoch),
                    }
                })
            }
            Stage::Confirm => self.admits(node, asking, is_there).map(|()| {
                if is_ours {
                    self.hold(client, epoch);
                    Client::Holds
                } else {
                    asks(Stage::Cancel, SOURCE, 0)
                }
            }),
            Stage::Cancel | Stage::Release => self.admits(node, asking, is_there).map(|()| {
                if is_ours {
                    self.nodes[node].lock = None;
                }
                let ends = is_ours || stage == Stage::Release || self.late[client];
                if ends {
                    Client::Idle
                } else {
                    asks(Stage::Cancel, SOURCE, 0)
                }
            }),
        };
        self.clients[client] = match next {
            Ok(next) => next,
            Err(Redirect::Ask) => Client::Asks {
                stage,
                node: TARGET,
                asking: true,
                epoch,
            },
            Err(Redirect::TryAgain) => first_by_key(variant),
            Err(Redirect::Moved) => match stage {
                Stage::Whole if node == SOURCE => asks(Stage::Whole, TARGET, 0),
                Stage::Whole | Stage::Take => Client::Idle, // nothing was taken
                Stage::Draw if variant == Variant::DrawsFirst => Client::Idle,
                Stage::Look | Stage::Draw | Stage::Confirm => asks(Stage::Cancel, SOURCE, 0),
                Stage::Cancel | Stage::Release => asks(stage, 1 - node, 0),
            },
        };
    }
}

fn asks(stage: Stage, node: usize, epoch: u8) -> Client {
    Client::Asks {
        stage,
        node,
        asking: false,
        epoch,
    }
}

fn first_by_key(variant: Variant) -> Client {
    match variant {
        Variant::DrawsFirst => asks(Stage::Draw, SOURCE, 0),
        _ => asks(Stage::Take, SOURCE, 0),
    }
}

fn creates(stage: Stage) -> bool {
    matches!(stage, Stage::Whole | Stage::Take)
}

struct Run {
    variant: Variant,
    /// How often each client tries.
    attempts: u8,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    TargetImports,
    SourceMigrates,
    TargetImportsNoMore,
    MoveGivenUp,
    LockMoves,
    CounterMoves,
    TargetServes,
    SourceLeft,
    /// A client begins …
    Begins(usize),
    /// … its next command is executed, and answered …
    Asks(Stage, usize),
    /// … it gives up.
    GivesUp(usize),
    Releases(usize),
    LeaseOver(usize),
    /// A command that was given up is executed.
    Late(usize),
    /// It would be too late.
    TooLate(usize),
    /// A client's lock is taken away at a node …
    Evicted(usize, usize),
    /// … or its key expires there.
    Expires(usize),
}

/// What may happen in an exploration.
#[derive(Clone, Copy, Debug)]
enum Witness {
    TakenByItsKey,
    MoveGivenUp,
    HeldWhileMoving,
    ExecutedLate,
    EvictedWhileHeld,
}

impl explore::Witness for Witness {
    fn place(self) -> u8 {
        self as u8
    }
}

type Seen = explore::Seen<Witness>;

impl Model for World {
    type Run = Run;
    type Step = Step;
    type Witness = Witness;

    fn first(_: &Run) -> Self {
        World::new()
    }

    fn steps(&self, run: &Run, steps: &mut Vec<Step>) {
        self.moves(steps);
        for client in [0, 1] {
            self.acts(client, run.attempts, steps);
            self.passes(client, steps);
        }
    }

    fn step(&mut self, run: &Run, step: Step, seen: &mut Seen) -> Outcome {
        let [source, target] = &mut self.nodes;
        match step {
            Step::TargetImports => {
                target.slot = Slot::Imports;
                self.begun += 1;
            }
            Step::SourceMigrates => source.slot = Slot::Migrates,
            Step::TargetImportsNoMore => target.slot = Slot::Elsewhere,
            Step::MoveGivenUp => source.slot = Slot::Serves,
            Step::LockMoves => target.lock = source.lock.take(),
            Step::CounterMoves => target.counter = source.counter.take(),
            Step::TargetServes => target.slot = Slot::Serves,
            Step::SourceLeft => source.slot = Slot::Elsewhere,
            Step::Begins(client) => {
                self.attempts[client] += 1;
                self.clients[client] = asks(Stage::Whole, SOURCE, 0);
            }
            Step::Asks(_, client) => self.executes(run.variant, client),
            Step::GivesUp(client) => {
                if let Client::Asks {
                    stage,
                    node,
                    asking,
                    ..
                } = self.clients[client]
                {
                    self.abandoned[client] = creates(stage).then_some((stage, node, asking));
                }
                self.give_up(client);
            }
            Step::Releases(client) => self.clients[client] = asks(Stage::Release, SOURCE, 0),
            Step::LeaseOver(client) => self.clients[client] = Client::Idle,
            Step::Late(client) => {
                if let Some(command) = self.abandoned[client].take() {
                    let _ = self.create(client, command);
                }
            }
            Step::TooLate(client) => {
                (self.abandoned[client], self.late[client]) = (None, true);
                if self.stage(client).is_some_and(creates) {
                    self.give_up(client); // it is refused
                }
            }
            Step::Evicted(_, node) => (self.nodes[node].lock, self.evicted) = (None, true),
            Step::Expires(node) => self.nodes[node].lock = None,
        }
        self.sees(step, seen);
        self.forgets();
        self.broken.into()
    }

    fn fingerprint(&self) -> u128 {
        let mut print = Print::default();
        self.hash(&mut print);
        print.value()
    }

    fn describe(&self) -> String {
        format!("{:?} {:?}", self.nodes, self.clients)
    }
}

impl World {
    /// What the administrator does.
    fn moves(&self, steps: &mut Vec<Step>) {
        let [source, target] = &self.nodes;
        match (source.slot, target.slot) {
            (Slot::Serves, Slot::Elsewhere) if self.begun < MOVES => {
                steps.push(Step::TargetImports);
            }
            (Slot::Serves, Slot::Imports) => {
                steps.extend([Step::SourceMigrates, Step::TargetImportsNoMore]);
            }
            (Slot::Migrates, Slot::Imports) => {
                if target.lock.is_none() && target.counter.is_none() {
                    steps.push(Step::MoveGivenUp);
                }
                steps.extend(source.lock.map(|_| Step::LockMoves));
                steps.extend(source.counter.map(|_| Step::CounterMoves));
                if source.lock.is_none() && source.counter.is_none() {
                    steps.push(Step::TargetServes);
                }
            }
            (Slot::Migrates, Slot::Serves) => steps.push(Step::SourceLeft),
            _ => {}
        }
    }

    /// What a client does.
    fn acts(&self, client: usize, attempts: u8, steps: &mut Vec<Step>) {
        match self.clients[client] {
            Client::Idle if self.attempts[client] < attempts => steps.push(Step::Begins(client)),
            Client::Idle => {}
            Client::Asks { stage, .. } => {
                steps.push(Step::Asks(stage, client));
                if !matches!(stage, Stage::Cancel | Stage::Release) {
                    steps.push(Step::GivesUp(client));
                }
            }
            Client::Holds => steps.extend([Step::Releases(client), Step::LeaseOver(client)]),
        }
    }

    /// What becomes of a command that was given up, and of a client's lock.
    fn passes(&self, client: usize, steps: &mut Vec<Step>) {
        steps.extend(self.abandoned[client].map(|_| Step::Late(client)));
        let stage = self.stage(client);
        let is_under_way = stage.is_some_and(creates);
        if (is_under_way || stage == Some(Stage::Cancel)) && !self.late[client] {
            steps.push(Step::TooLate(client));
        }
        let is_over = self.clients[client] == Client::Idle || stage == Some(Stage::Cancel);
        for node in [SOURCE, TARGET] {
            if self.nodes[node].lock != Some(self.token(client)) {
                continue;
            }
            if !self.evicted {
                steps.push(Step::Evicted(client, node));
            }
            // No lease ends before that of its client.
            if is_over {
                steps.push(Step::Expires(node));
            }
        }
    }

    fn stage(&self, client: usize) -> Option<Stage> {
        match self.clients[client] {
            Client::Asks { stage, .. } => Some(stage),
            Client::Idle | Client::Holds => None,
        }
    }

    fn sees(&self, step: Step, seen: &mut Seen) {
        let holds = |client: usize| self.clients[client] == Client::Holds;
        match step {
            Step::Asks(Stage::Confirm, client) if holds(client) => {
                seen.saw(Witness::TakenByItsKey);
            }
            Step::MoveGivenUp => seen.saw(Witness::MoveGivenUp),
            Step::LockMoves if holds(0) || holds(1) => seen.saw(Witness::HeldWhileMoving),
            Step::Late(_) => seen.saw(Witness::ExecutedLate),
            Step::Evicted(client, _) if holds(client) => seen.saw(Witness::EvictedWhileHeld),
            _ => {}
        }
    }

    /// What no step depends on any more.
    fn forgets(&mut self) {
        for client in [0, 1] {
            if matches!(self.clients[client], Client::Idle | Client::Holds) {
                (self.abandoned[client], self.late[client]) = (None, false);
                self.drew_as_none[client] = false;
            }
        }
    }
}

/// Explores how clients that try so often take locks; returns the number of worlds.
fn worlds(name: &str, attempts: u8) -> usize {
    let run = Run {
        variant: Variant::AsShipped,
        attempts,
    };
    let sees = &[
        Witness::TakenByItsKey,
        Witness::MoveGivenUp,
        Witness::HeldWhileMoving,
        Witness::ExecutedLate,
        Witness::EvictedWhileHeld,
    ];
    hold(vec![Row::<World>::new(name, sees, run)])[0]
}

#[test]
fn a_lock_taken_by_its_key_has_one_holder_and_a_higher_epoch() {
    let worlds = worlds("one attempt each", 1);
    assert!(worlds > 10_000, "{worlds}");
}

#[test]
#[ignore = "for a release build: docs/notes/model.md"]
fn explore_large_slot_move() {
    let worlds = worlds("two attempts each", 2);
    assert!(worlds > 1_000_000, "{worlds}");
}

#[test]
fn each_known_bad_variant_is_found() {
    let bad = |variant, caught_by, steps| Bad::<World> {
        name: format!("{variant:?}"),
        run: Run {
            variant,
            attempts: 1,
        },
        most_states: usize::MAX,
        caught_by,
        steps,
    };
    catch(vec![
        bad(Variant::DoesNotLook, "an epoch is not above", 14),
        bad(
            Variant::DoesNotConfirm,
            "the lock was lost before its epoch",
            9,
        ),
        bad(Variant::DrawsFirst, "an epoch is not above", 11),
    ]);
}
