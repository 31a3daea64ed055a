//! The state of the model: independent servers, clients, and what is on its way between them.

use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use super::client::{Client, What};
use super::kinds::{Highest, Role};
use super::run::{Proposals, Run, TICK_MICROS};
use crate::client::quorum::footprint::ServerProcess;
use crate::client::quorum::nodes::{NodeCount, NodeId, NodeSet};
use crate::rules::Server;
use crate::rules::commands::Claim;
use crate::rules::tests::print::Print;
use crate::values::entry;
use crate::values::moment::Moment;

pub(super) const KEY: &str = "k";

/// The key of another lock, which draws from the same counter.
pub(super) const OTHER_KEY: &str = "other";

/// An epoch, and the index of the hand-off in it.
pub(super) type Fence = (u64, u16);

/// A client and the number of its token.
pub(super) type Whose = (usize, u16);

/// When the run begins, on the clients' clock …
const CLIENT_ZERO: u64 = 1_000_000_000_000;

/// … and on the nodes'.
const NODE_ZERO: u64 = 1_700_000_000_000_000;

#[derive(Clone)]
pub(super) struct World {
    pub(super) tick: u32,
    pub(super) nodes: Vec<Rc<Node>>,
    pub(super) clients: Vec<Rc<Client>>,
    pub(super) budget: u8,
    pub(super) give_ups: u8,
    /// The highest fences of bodies that have begun.
    pub(super) highest: Highest,
    /// What an administrator takes away, and at which nodes it is gone.
    pub(super) evicted: Option<(Whose, NodeSet)>,
    /// What each client asks for; never changed.
    roles: Rc<[Role]>,
    /// No client is told another time than the others.
    are_clients_alike: bool,
    /// Of each client, its claims; never changed.
    pub(super) claims: Rc<[Vec<Claim>]>,
}

/// One server.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) server: Server,
    /// By how many ticks its clock is ahead.
    pub(super) skew: i64,
    pub(super) is_up: bool,
    /// From this tick on.
    pub(super) votes_from: u32,
    /// How often it was restarted, where that counts.
    pub(super) process: u8,
}

impl World {
    pub(super) fn new(run: &Run) -> Self {
        let claims = (0..run.clients).map(|client| {
            (0..run.attempts)
                .map(|token| claim(run, client, token))
                .collect()
        });
        let nodes = (0..run.nodes).map(|at| {
            Rc::new(Node {
                server: Server::default(),
                skew: run.skews.get(at).copied().unwrap_or(0),
                is_up: true,
                votes_from: 0,
                process: 0,
            })
        });
        let mut world = Self {
            tick: 0,
            nodes: nodes.collect(),
            clients: Vec::new(),
            budget: run.budget,
            give_ups: run.give_ups,
            highest: Highest::default(),
            evicted: None,
            roles: (0..run.clients).map(|it| run.role(it)).collect(),
            are_clients_alike: match run.proposals {
                Proposals::Any(_) => true,
                Proposals::Time(errors) => errors.is_empty(),
            },
            claims: claims.collect(),
        };
        world.clients = (0..run.clients)
            .map(|at| Rc::new(Client::new(at, &world)))
            .collect();
        world
    }

    /// The clients' clock.
    pub(super) fn now(&self) -> Moment {
        moment(self.tick)
    }

    /// A node's clock, in µs.
    pub(super) fn time(&self, node: NodeId) -> u64 {
        let ticks = i64::from(self.tick) + self.nodes[node.index()].skew;
        NODE_ZERO.saturating_add_signed(ticks * TICK_MICROS.cast_signed())
    }

    /// As whom a node answers.
    pub(super) fn process(&self, node: NodeId) -> ServerProcess {
        ServerProcess::of(["a", "b", "c", "d"][usize::from(self.node(node).process) % 4])
    }

    pub(super) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    pub(super) fn node_mut(&mut self, node: NodeId) -> &mut Node {
        Rc::make_mut(&mut self.nodes[node.index()])
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        NodeCount::new(self.nodes.len()).expect("odd, 3 to 9").ids()
    }

    pub(super) fn claim(&self, (client, token): Whose) -> &Claim {
        &self.claims[client][usize::from(token)]
    }

    /// Drops what has lapsed, so that only what counts is in the fingerprint.
    pub(super) fn tidy(&mut self, node: NodeId) {
        let time = self.time(node);
        if self.ends_by(node, time) {
            self.node_mut(node).server.read(KEY, time);
        }
    }

    /// Whether an entry at a node ends by this time.
    pub(super) fn ends_by(&self, node: NodeId, time: u64) -> bool {
        let mut ends = false;
        self.each_entry(node, |_, end| ends |= end <= time);
        ends
    }

    /// Whether an entry at a node ends after this time.
    pub(super) fn ends_after(&self, node: NodeId, time: u64) -> bool {
        let mut ends = false;
        self.each_entry(node, |_, end| ends |= end > time);
        ends
    }

    /// The entries at a node's key, and when they end.
    pub(super) fn each_entry(&self, node: NodeId, tell: impl FnMut(&str, u64)) {
        self.node(node).server.each_entry(KEY, tell);
    }

    /// Whether a token has an entry at a node.
    pub(super) fn is_at(&self, node: NodeId, token: Whose) -> bool {
        let mut is_there = false;
        self.each_entry(node, |entry, _| is_there |= whose(entry) == token);
        is_there
    }

    /// Who has an entry at a node.
    pub(super) fn holders(&self, node: NodeId) -> Vec<Whose> {
        let mut holders = Vec::new();
        self.each_entry(node, |entry, _| holders.push(whose(entry)));
        holders
    }

    /// Equal for all states that differ only in which node is which, or which client of one kind.
    pub(super) fn fingerprint(&self) -> u128 {
        let orders: &[&[usize]] = match (self.clients.len(), self.are_clients_alike) {
            (2, true) => &[&[0, 1], &[1, 0]],
            (3, true) => &[
                &[0, 1, 2],
                &[0, 2, 1],
                &[1, 0, 2],
                &[1, 2, 0],
                &[2, 0, 1],
                &[2, 1, 0],
            ],
            _ => &[&[0, 1, 2]],
        };
        let is_same = |order: &[usize]| {
            let mut roles = order.iter().zip(self.roles.iter());
            roles.all(|(at, role)| self.roles.get(*at).is_none_or(|it| it == role))
        };
        let orders = orders.iter().filter(|order| is_same(order));
        let prints = orders.map(|order| self.print(order));
        prints.min().unwrap_or_default()
    }

    /// With the clients in this order. The nodes' parts are added up.
    fn print(&self, order: &[usize]) -> u128 {
        let clients = || order.iter().filter_map(|at| self.clients.get(*at));
        let place = |client| order.iter().position(|at| *at == client);
        let mut all = Print::default();
        for node in self.ids() {
            let mut print = Print::default();
            let it = self.node(node);
            (it.skew, it.is_up, it.votes_from.max(self.tick), it.process).hash(&mut print);
            self.evicted.map(|it| it.1.contains(node)).hash(&mut print);
            (it.server.last_epoch(), it.server.stored_epoch(KEY)).hash(&mut print);
            self.each_entry(node, |entry, end| {
                let mut each = Print::default();
                let (client, token) = whose(entry);
                (place(client), token, entry::letter_of(entry), end).hash(&mut each);
                print.add(&each);
            });
            for client in clients() {
                client.hash_at(node, &mut print);
            }
            all.add(&print);
        }
        (self.tick, self.budget, self.give_ups, self.highest).hash(&mut all);
        let evicted = self
            .evicted
            .map(|((client, token), _)| (place(client), token));
        evicted.hash(&mut all);
        for client in clients() {
            client.hash_apart_from_nodes(&mut all);
        }
        all.value()
    }

    /// For people who read a trace.
    pub(super) fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut told = format!("{} |", self.tick);
        for node in self.ids() {
            let it = self.node(node);
            let _ = write!(told, " {}:{}", name(node), it.server.last_epoch());
            if let Some(epoch) = it.server.stored_epoch(KEY) {
                let _ = write!(told, " (hold {epoch})");
            }
            self.each_entry(node, |entry, end| {
                let (client, token) = whose(entry);
                let kind = entry.split('|').nth(1).unwrap_or_default();
                let left = end.saturating_sub(self.time(node)) / TICK_MICROS;
                let _ = write!(told, "={client}.{token}{kind} for {left}");
            });
            told.push_str(if it.is_up { "" } else { " down" });
        }
        for client in &self.clients {
            let _ = write!(told, " | {}", client.describe(self.now()));
        }
        told
    }

    /// For the same people.
    pub(super) fn name_of_message(&self, client: usize, message: usize) -> String {
        let message = &self.clients[client].messages[message];
        let what = match &message.what {
            What::Ballot { proposal, .. } => format!("ballot({proposal})"),
            What::Adopt { epoch, .. } => format!("adopt({epoch})"),
            What::Renew { round, .. } => format!("renew({round})"),
            What::Reseed { round, .. } => format!("reseed({round})"),
            What::Downgrade { .. } => "downgrade".to_owned(),
        };
        format!(
            "{what} of {client}.{} at {}",
            message.token,
            name(message.node)
        )
    }
}

pub(super) fn moment(tick: u32) -> Moment {
    Moment::from_nanos(CLIENT_ZERO).plus(super::run::TICK * tick)
}

pub(super) fn name(node: NodeId) -> char {
    char::from(b'A' + u8::try_from(node.index()).expect("at most nine"))
}

fn claim(run: &Run, client: usize, token: u16) -> Claim {
    let (kind, token) = (run.role(client).kind(), format!("{client}.{token}"));
    Claim {
        is_once: false,
        key: KEY.into(),
        value: entry::of_test(&kind, &token, "", run.lease(), "h|1|f|0").into(),
        queues: false,
    }
}

/// The claim that wrote a value.
pub(super) fn whose(value: &str) -> Whose {
    let token = value.split('|').nth(2).and_then(|it| it.split_once('.'));
    let (client, number) = token.expect("a claim of the model");
    let client = client.parse().expect("a client");
    (client, number.parse().expect("a token"))
}

/// A claim of another lock.
pub(super) fn other_claim() -> Claim {
    Claim {
        is_once: false,
        key: OTHER_KEY.into(),
        value: Arc::from("another"),
        queues: false,
    }
}
