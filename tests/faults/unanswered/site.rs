//! Running servers of a column, the wires to them, what reached them, and what is left there.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use dlock_harness::{Action, Matcher, Monitor, Proxy, RedisServer, Trigger, until, until_ok};
use dlock_runtime::{LockGuard, LockPool, LockRequest, Release, Wait};
use dlock_tests::of_kind;
use dlock_tests::served::{QUORUM_TTL, Served, Wires};
use tokio::runtime::Handle;

use super::column::Column::{self, ByText, Cluster, Minority, Quorum, Sharded, WithoutScripts};
use super::column::{Item, SLOT};
use super::row::{Call, Frame, Row};
use crate::lab::{CAP, COMMAND, all_texts, connected};

/// Running servers of a column, and the wires to them.
pub(super) struct Site {
    pub(super) column: Column,
    served: Served,
    wires: Wires,
    /// The servers where the fault comes, by number: those that have the item, or some nodes.
    broken: Vec<usize>,
}

impl Site {
    pub(super) async fn start(column: Column) -> Self {
        let served = Served::start(column.topology(), &["~*", "+type", "+rpush"]).await;
        let mut broken = Vec::new();
        for (nth, server) in served.servers().into_iter().enumerate() {
            let has_it = server.try_cmd(&["EXISTS", SLOT]).await.is_ok();
            if has_it && (column, nth) != (Quorum, 2) && (column != Minority || nth == 2) {
                broken.push(nth);
            }
        }
        Self {
            column,
            served,
            wires: Wires::default(),
            broken,
        }
    }

    /// A pool over the wires, whose servers know the scripts, so that each operation is one request.
    pub(super) async fn pool(&self, command_timeout: Duration) -> LockPool {
        for text in all_texts() {
            for server in self.served.servers() {
                server.cmd(&["SCRIPT", "LOAD", &text]).await;
            }
        }
        // A clean-up waits for a transaction whose reply is held.
        let command_timeout = match self.column {
            WithoutScripts => command_timeout.min(COMMAND * 4),
            _ => command_timeout,
        };
        let config = self
            .served
            .config(self.column.user())
            .command_timeout(command_timeout);
        let config = config.connect_timeout(CONNECT.max(command_timeout));
        let pool = connected(self.wires.over(config)).await;
        until("it locks", CAP, async || {
            let request = pool.lock("warm").ttl(self.column.lease());
            let warm = request.acquire().await;
            warm.is_ok() // and the watchdog connects
        })
        .await;
        self.until_free().await;
        pool
    }

    /// Waits for its connections: if one after the other is lost, the next one is begun after a
    /// pause, which a single try may not wait for. A runtime connects to each node by itself, and
    /// most of them are enough for a lock.
    pub(super) async fn ready(&self, pool: &LockPool, caller: &Handle) {
        until("it is connected", CAP, async || pool.ping().await.is_ok()).await;
        if matches!(self.column, Quorum | Minority) {
            let met = self.on(|| Matcher::script().containing("ready"), Action::Signal);
            until("all nodes are connected", CAP, async || {
                let lock = pool.lock("ready").ttl(QUORUM_TTL);
                let taken = caller.spawn(async { drop(lock.acquire().await) });
                taken.await.unwrap();
                met.0.iter().all(|it| it.fired() > 0)
            })
            .await;
            self.until_free().await;
        }
    }

    /// By text, the servers forget all scripts.
    pub(super) async fn forget(&self) {
        if self.column == ByText {
            self.served.server().cmd(&["SCRIPT", "FLUSH"]).await;
        }
    }

    pub(super) fn request(
        &self,
        pool: &LockPool,
        row: &Row,
        item: &Item,
        nth: usize,
    ) -> LockRequest {
        let key = match row.callers {
            1 => item.key.clone(),
            _ => format!("{}:{nth}", item.key),
        };
        let lease = row.lease.unwrap_or(self.column.lease());
        let last = format!("{key}:last");
        let request = match row.call {
            Call::Several => pool.lock_all([key, last]),
            Call::SeveralInTurn => pool.lock_all([key, last]).fair(),
            _ => of_kind(pool.lock(key), item.kind),
        };
        let request = request.ttl(lease);
        match row.call {
            Call::Try | Call::Several | Call::SeveralInTurn => request.wait(Wait::Once),
            Call::RunInBackground => request.release(Release::Background),
            _ if row.is_renewed => request.renew_every(OFTEN),
            _ => request.wait(CAP),
        }
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &RedisServer> {
        let servers = self.served.servers();
        self.broken.iter().map(move |it| servers[*it])
    }

    /// The wires that fail.
    pub(super) fn wires(&self) -> impl Iterator<Item = Arc<Proxy>> {
        let ports = self.served.ports();
        self.broken.iter().map(move |it| self.wires.to(ports[*it]))
    }

    pub(super) fn accepted(&self) -> u64 {
        self.wires().map(|it| it.accepted()).sum()
    }

    /// Lets the fault meet such a request at each of these wires.
    pub(super) fn on(&self, request: impl Fn() -> Matcher, fault: Action) -> Met {
        Met(self.wires().map(|it| it.on(request(), fault)).collect())
    }

    /// What is held stays so.
    pub(super) fn clear_triggers(&self) {
        self.wires().for_each(|wire| wire.clear_triggers());
    }

    pub(super) fn deliver(&self) {
        self.wires().for_each(|wire| wire.release_held());
    }

    /// A pool that bypasses the wires.
    pub(super) async fn direct(&self) -> LockPool {
        connected(self.served.config(self.column.user())).await
    }

    /// Whether each server where the fault comes has the item.
    pub(super) async fn has(&self, item: &Item) -> bool {
        for server in self.servers() {
            if server.pttl(&item.on_server()).await == -2 {
                return false;
            }
        }
        true
    }

    /// Another lease of the same pool, renewed as often: its renewals show that others had the time
    /// to come.
    pub(super) async fn metronome(&self, pool: &LockPool) -> LockGuard {
        let beats = Item::new("x", BEATS);
        let request = pool.lock(&*beats.key).ttl(self.column.lease());
        request.renew_every(OFTEN).acquire().await.unwrap()
    }

    pub(super) async fn until_beats(&self, record: &Record) {
        let beats = Item::new("x", BEATS);
        let before = record.count(Frame::Renew, &beats);
        until("the metronome beats", CAP, async || {
            record.count(Frame::Renew, &beats) >= before + 6
        })
        .await;
    }

    /// The lock can be had, and no command about it follows the one that freed it.
    pub(super) async fn is_sound(
        &self,
        pool: &LockPool,
        record: &Record,
        lives: RangeInclusive<usize>,
        row: &Row,
    ) {
        if self.column.has_one_script_each() {
            let metronome = self.metronome(pool).await;
            self.until_beats(record).await;
            metronome.release().await.unwrap();
            record.ends_with_its_lock(lives, row).await;
        }
        let again = pool.lock(&*record.item.key).ttl(self.column.lease());
        let again = again.wait(CAP).acquire().await.unwrap();
        again.release().await.unwrap();
    }

    pub(super) fn record(&self, item: &Item) -> Record {
        Record {
            column: self.column,
            item: item.clone(),
            monitors: self.servers().map(RedisServer::monitor).collect(),
        }
    }

    /// What is left: everything but counters and what ends by itself.
    pub(super) async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for server in self.served.servers() {
            left.extend(server.keys().await);
        }
        left.retain(|key| match self.column {
            Quorum | Minority => !["@fence", "@h", "@quorum"]
                .iter()
                .any(|it| key.contains(it)),
            Cluster | Sharded => !key.contains("@fence"),
            _ => key != "lock:@fence",
        });
        left
    }

    /// Until somebody waits, in the queue or for a node's hint.
    pub(super) async fn until_queued(&self, item: &Item) {
        until("it waits", CAP, async || {
            let mut keys = Vec::new();
            for server in self.servers() {
                keys.extend(server.keys().await);
            }
            let waits = |key: &String| key.contains("@w") || key.contains("@h");
            keys.iter().any(|key| waits(key) && key.contains(&item.key))
        })
        .await;
    }

    pub(super) async fn until_free(&self) {
        until("nothing is left", self.column.soon(), async || {
            self.left().await.is_empty()
        })
        .await;
    }

    /// What guarded writes have written beside the item.
    pub(super) async fn written(&self, item: &Item) -> Vec<String> {
        let mut written = Vec::new();
        for server in self.servers() {
            let list: Vec<String> = server.ask(&["LRANGE", &item.data(), "0", "-1"]).await;
            written.extend(list);
        }
        written
    }

    /// What stands at a key: at one server, all of it; of a quorum, whether most nodes have it.
    pub(super) async fn at(&self, key: &str) -> Vec<String> {
        let mut there = Vec::new();
        for server in self.served.servers() {
            if let Ok(redis::Value::BulkString(dump)) = server.try_cmd(&["DUMP", key]).await {
                there.push(format!("{dump:?}"));
            }
        }
        match self.column {
            Quorum | Minority if there.len() > 1 => vec!["at most nodes".to_owned()],
            Quorum | Minority => Vec::new(),
            _ => there,
        }
    }

    /// How many hold the item, each with all its permits.
    pub(super) async fn holders(&self, item: &Item) -> usize {
        if matches!(item.kind, "x" | "fair") {
            return 1;
        }
        let each = if item.kind == "p:3/3" { 3 } else { 1 };
        let mut holders = 0;
        for server in self.served.servers() {
            if let Ok(redis::Value::Int(members)) =
                server.try_cmd(&["ZCARD", &item.on_server()]).await
            {
                let members = usize::try_from(members).unwrap();
                holders = holders.max(members.saturating_sub(1) / each);
            }
        }
        holders
    }
}

/// The number of an item that no case has.
const BEATS: usize = 999;

/// How often leases are renewed here.
const OFTEN: Duration = Duration::from_millis(20);

/// The default.
const CONNECT: Duration = Duration::from_secs(1);

/// The requests that a fault met, at one server or at several.
pub(super) struct Met(Vec<Trigger>);

impl Met {
    /// Waits until it was met at each.
    pub(super) async fn seen(&self) {
        for trigger in &self.0 {
            trigger.seen().await;
        }
    }

    pub(super) fn fired(&self) -> u64 {
        self.0.iter().map(Trigger::fired).sum()
    }
}

/// What reached the servers where the fault comes.
pub(super) struct Record {
    column: Column,
    item: Item,
    monitors: Vec<Monitor>,
}

impl Record {
    /// Until such a request of the item was executed at each.
    pub(super) async fn until(&self, frame: Frame) {
        let shows = |line: &String| self.column.shows(line, frame, &self.item);
        until_ok(&format!("{frame:?} was executed"), CAP, async || {
            let mut all = self.monitors.iter();
            let is_executed = all.all(|monitor| monitor.lines().iter().any(shows));
            is_executed.then_some(()).ok_or_else(|| self.told())
        })
        .await;
    }

    /// Until it was created at each.
    pub(super) async fn until_created(&self) {
        until_ok("it was created", CAP, async || {
            let mut all = self.monitors.iter();
            let is_created = all.all(|monitor| monitor.lines().iter().any(|it| self.creates(it)));
            is_created.then_some(()).ok_or_else(|| self.told())
        })
        .await;
    }

    /// How many such requests there were.
    fn count(&self, frame: Frame, item: &Item) -> usize {
        let lines = self.monitors.iter().flat_map(Monitor::lines);
        lines
            .filter(|it| self.column.shows(it, frame, item))
            .count()
    }

    /// Fails if a command tried to renew or to set the item after it was deleted, or if it was set
    /// more often than it was to be.
    async fn ends_with_its_lock(&self, lives: RangeInclusive<usize>, row: &Row) {
        let key = self.item.on_server();
        let deletes = |line: &String| {
            let commands = ["DEL", "DELEX", "DELIFEQ"];
            let mut commands = commands.iter();
            commands.any(|it| line.contains(&format!("lua] \"{it}\" \"{key}\"")))
        };
        let renews = |line: &String| self.column.shows(line, Frame::Renew, &self.item);
        let created = self.created().await;
        assert!(lives.contains(&created), "it was set {created} times");
        if created == 0 {
            return;
        }
        for monitor in &self.monitors {
            let record = monitor.settled().await;
            // Only an acquire that is late is deleted in vain first.
            let freed = if row.is_renewed {
                record.iter().position(deletes)
            } else {
                record.iter().rposition(deletes)
            };
            let freed = freed.expect("it was freed");
            let late = record[freed..].iter();
            let late: Vec<_> = late.filter(|it| renews(it) || self.creates(it)).collect();
            assert!(late.is_empty(), "{late:?}");
        }
    }

    /// What was executed, without the texts of scripts.
    fn told(&self) -> Vec<String> {
        let lines = self.monitors.iter().flat_map(Monitor::lines);
        lines.map(|it| it.chars().take(400).collect()).collect()
    }

    /// How often it was created. Without scripts, the server decides by the time that is sent.
    pub(super) async fn created(&self) -> usize {
        let is_timed = |it: &str| self.column == WithoutScripts && it.contains("\"PXAT\"");
        let mut created = 0;
        for monitor in &self.monitors {
            let lines = monitor.settled().await;
            let creating = lines.iter().filter(|it| self.creates(it) && !is_timed(it));
            created += creating.count();
        }
        created
    }

    /// Whether a line creates the item's key.
    fn creates(&self, line: &str) -> bool {
        let key = self.item.on_server();
        ["SET", "ZADD"]
            .iter()
            .any(|it| line.contains(&format!("\"{it}\" \"{key}\"")))
    }
}
