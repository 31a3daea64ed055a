//! Attacks that once succeeded, one test each.

use std::time::Duration;

use dlock_harness::{Monitor, RedisServer, until, until_ok, wait};
use dlock_runtime::{LockGuard, LockPool, Wait};
use tokio::task::JoinHandle;

use crate::eve::{Eve, Message};
use crate::lab::{CAP, LONG, Lab, channel, ms, on_labs};
use crate::observer::Beside;

/// A held item, and a waiter of another pool.
struct Scene {
    lab: Lab,
    /// The waiter's pool.
    pool: LockPool,
    other: LockPool,
    holder: LockGuard,
    waiter: JoinHandle<LockGuard>,
    /// What the server knows about the waiter.
    places: Vec<String>,
    /// The waiter's value: its queue entry; at nodes, that of one of its acquires.
    value: String,
    /// The channels that the waiter listens to.
    channels: Vec<String>,
    eve: Eve,
}

impl Scene {
    async fn of(lab: Lab, ttl: Duration) -> Self {
        let (pool, other) = (lab.pool().await, lab.pool().await);
        for pool in [&pool, &pool, &other] {
            // So that the other pool has also drawn, and forgotten, every number that the holder's
            // token may have.
            pool.lock("past").run(async |_| ()).await.unwrap();
        }
        let holder = lab.lock(&other, "item", LONG).acquire().await.unwrap();
        // It outlasts Eve, however many messages she has on a busy machine.
        let request = lab.lock(&pool, "item", ttl).wait(Wait::Forever);
        let waiter = lab.queued("item", request).await;
        let mut scene = Self {
            pool,
            other,
            holder,
            waiter,
            places: Vec::new(),
            value: String::new(),
            channels: Vec::new(),
            eve: lab.eve(1).await,
            lab,
        };
        scene.looks().await;
        scene
    }

    async fn looks(&mut self) {
        self.eve.look().await;
        self.places = self.lab.places("item").await;
        self.value = self.lab.waiter("item").await;
        self.channels = if self.lab.is_of_nodes() {
            self.eve.seen.channels.iter().cloned().collect()
        } else {
            vec![channel(&self.value)]
        };
    }

    /// The waiter's value; at nodes those of its next acquires, since Eve is too slow for the present
    /// one.
    fn values(&self) -> Vec<String> {
        if !self.lab.is_of_nodes() {
            return vec![self.value.clone()];
        }
        let drawn = number_of(&self.value);
        let ahead = (0..200).map(|ahead| with_number(&self.value, drawn + ahead));
        ahead.collect()
    }

    /// Forged grants of the item to the waiter: without a MAC, with a guessed one, with MACs that
    /// were really published.
    fn forged(&self, epoch: u64, time: u64, lease: u64) -> Vec<Message> {
        let mut macs = vec![String::new(), format!("{:040x}", 7)];
        macs.extend(self.eve.seen.messages.iter().filter_map(mac));
        let mut all = Vec::new();
        for value in self.values() {
            let lines = ["1|granted", "lock:item", &value].join("\n");
            let bare = format!("{lines}\n{epoch}\n{time}\n{lease}");
            let with = macs.iter().map(|mac| format!("{bare}\n{mac}"));
            all.extend(std::iter::once(bare.clone()).chain(with));
        }
        self.to_the_waiter(all)
    }

    fn to_the_waiter(&self, texts: impl IntoIterator<Item = String>) -> Vec<Message> {
        let to_each = |text: String| {
            let channels = self.channels.iter();
            channels.map(move |it| (it.clone(), text.clone().into_bytes()))
        };
        texts.into_iter().flat_map(to_each).collect()
    }

    /// Publishes these; at nodes some times, with a hint before them, so that some come while the
    /// waiter asks for its lock.
    async fn say(&mut self, messages: &[Message]) -> u64 {
        let mut heard = 0;
        let times = if self.lab.is_of_nodes() { 5 } else { 1 };
        for _ in 0..times {
            let mut all = Vec::new();
            if self.lab.is_of_nodes() {
                all = self.to_the_waiter(["1|freed\nlock:item".to_owned()]);
            }
            all.extend_from_slice(messages);
            heard += self.eve.say(&all).await;
        }
        heard
    }

    fn monitors(&self) -> Vec<Monitor> {
        let servers = self.lab.servers.iter();
        servers.map(RedisServer::monitor).collect()
    }

    /// Forged grants that look as plausible as possible.
    async fn plausible(&self) -> Vec<Message> {
        let counter = self.lab.counter().await;
        self.forged(counter + 1, counter + 1, 3000)
    }

    /// Nothing was believed: the waiter still waits in the same place, and gets the lock when it is
    /// free.
    async fn nothing_came_of_it(mut self) -> Lab {
        self.pool.ping().await.unwrap(); // answered after the messages
        for _ in 0..10 {
            assert!(self.holder.is_held(), "the holder's lease ran out");
            assert!(!self.waiter.is_finished(), "it had the lock");
            let places = self.lab.places("item").await;
            assert_eq!(places, self.places, "it lost its place");
            wait::pause(ms(5)).await;
        }
        self.holder.verify().await.unwrap();
        self.holder.release().await.unwrap();
        let waiter = wait::within(CAP, &mut self.waiter).await;
        let guard = waiter.expect("its turn").unwrap();
        let counter = self.lab.counter().await;
        assert!(guard.fence().get() >> 10 <= counter, "{}", guard.fence());
        guard.verify().await.unwrap();
        guard.release().await.unwrap();
        self.lab
    }
}

/// The line after a message's numbers.
fn mac((_, payload): &Message) -> Option<String> {
    let text = std::str::from_utf8(payload).ok()?;
    Some(text.split('\n').nth(6)?.to_owned())
}

/// The value with another number in its token.
pub(crate) fn with_number(value: &str, number: u64) -> String {
    let mut fields: Vec<&str> = value.split('|').collect();
    let (before, _) = fields[2].rsplit_once('-').unwrap();
    let token = format!("{before}-{number:x}");
    fields[2] = &token;
    fields.join("|")
}

fn number_of(value: &str) -> u64 {
    let token = value.split('|').nth(2).unwrap();
    let (_, number) = token.rsplit_once('-').unwrap();
    u64::from_str_radix(number, 16).unwrap()
}

/// No script was asked for anything about these values.
async fn is_cleaned_up_nowhere(monitors: Vec<Monitor>, values: &[String]) {
    for monitor in monitors {
        let lines = monitor.settled().await;
        let about = |it: &&String| values.iter().any(|value| it.contains(value));
        let cleans_up = |it: &&String| it.contains("EVAL") && about(it);
        assert_eq!(lines.iter().find(cleans_up), None, "nobody may clean up");
    }
}

/// A lease that is extended after its grant, and one that is not.
const LEASES: [Duration; 2] = [LONG, Duration::from_secs(2)];

/// Ahead of the numbers that are drawn in a test: nothing is cleaned up for these.
const FAR: u64 = 1 << 40;

/// A number that is not drawn yet belongs to no attempt. A message with such a number once made the
/// watchdog, and then every worker, wait for ever when the number was drawn.
async fn numbers_that_are_still_to_be_drawn_stop_nothing(lab: Lab) {
    let mut scene = Scene::of(lab, LONG).await;
    let held = scene.lab.lock(&scene.pool, "held", LONG);
    let held = held.acquire().await.unwrap();
    let value = scene.lab.value("lock:held").await.unwrap();
    let beside = Beside::of(&scene.lab, &scene.pool);
    let far = [FAR, FAR + 1].map(|ahead| with_number(&value, ahead));
    let mut monitors = scene.monitors();
    for round in 0..=20 {
        let drawn = number_of(&value) + beside.cycles();
        let time = scene.lab.counter().await;
        let soon = (1..60).map(|ahead| with_number(&value, drawn + ahead));
        let ahead = if round == 0 {
            far.to_vec()
        } else {
            soon.collect()
        };
        let ahead = ahead
            .iter()
            .map(|value| format!("1|granted\nlock:held\n{value}\n{time}\n{time}\n3000\n"));
        let ahead = scene.to_the_waiter(ahead);
        assert!(scene.say(&ahead).await > 0, "it was heard");
        let before = beside.cycles();
        until("a task beside goes on", CAP, async || {
            beside.cycles() > before + 3
        })
        .await;
        if round == 1 {
            is_cleaned_up_nowhere(std::mem::take(&mut monitors), &far).await;
        }
    }
    held.verify().await.unwrap();
    held.release().await.unwrap();
    drop(beside);
    scene.nothing_came_of_it().await;
}
on_labs!(numbers_that_are_still_to_be_drawn_stop_nothing);

async fn a_reader_grants_itself_no_lock_and_poisons_no_fence(lab: Lab) {
    let mut lab = Some(lab);
    for ttl in LEASES {
        let mut scene = Scene::of(lab.take().unwrap(), ttl).await;
        let counter = scene.lab.counter().await;
        for (epoch, lease) in [
            (9_007_199_254_740_990, 30_000),
            (9_007_199_254_740_990, 3000),
            (counter, 30_000),
            (counter - 1, 3000),
            (counter + 61_000_000, 3000),
        ] {
            let huge = scene.forged(epoch, counter, lease);
            scene.say(&huge).await;
        }
        lab = Some(scene.nothing_came_of_it().await);
    }
}
on_labs!(a_reader_grants_itself_no_lock_and_poisons_no_fence);

/// On one server without a secret, nothing tells a forgery from a grant.
async fn a_plausible_forgery_is_not_believed(lab: Lab) {
    let mut lab = Some(lab);
    for ttl in LEASES {
        let mut scene = Scene::of(lab.take().unwrap(), ttl).await;
        let plausible = scene.plausible().await;
        assert!(scene.say(&plausible).await > 0, "it was heard");
        lab = Some(scene.nothing_came_of_it().await);
    }
}
on_labs!(a_plausible_forgery_is_not_believed: with_a_secret, nodes_with_a_secret, nodes_without_a_secret, cluster_with_a_secret);

/// A grant that has ended by the time it is read once made its waiter give up its queue entry.
async fn a_forged_grant_of_the_past_costs_nobody_its_place(lab: Lab) {
    let mut scene = Scene::of(lab, LONG).await;
    let counter = scene.lab.counter().await;
    for (time, lease) in [(counter, 0), (1, 3000), (0, 0), (counter - 5_000_000, 3000)] {
        let past = scene.forged(counter + 1, time, lease);
        scene.say(&past).await;
    }
    scene.nothing_came_of_it().await;
}
on_labs!(a_forged_grant_of_the_past_costs_nobody_its_place);

/// Pools of one process receive messages with each other's values; each cleans up only its own.
async fn what_one_pool_holds_is_not_another_pools_to_give_back(lab: Lab) {
    let mut scene = Scene::of(lab, LONG).await;
    let held = scene.lab.value("lock:item").await.unwrap();
    let counter = scene.lab.counter().await;
    let monitors = scene.monitors();
    for key in ["lock:item", "lock:another"] {
        let message = format!("1|granted\n{key}\n{held}\n{counter}\n{counter}\n3000");
        let macs = ["", "0123456789abcdef0123456789abcdef01234567"];
        let messages = macs.map(|mac| format!("{message}\n{mac}"));
        let messages = scene.to_the_waiter(messages);
        assert!(scene.say(&messages).await > 0, "it was heard");
    }
    for pool in [&scene.pool, &scene.other] {
        pool.ping().await.unwrap(); // answered after the messages
        pool.lock("later").run(async |_| ()).await.unwrap();
    }
    // At nodes it is renewed meanwhile.
    if !scene.lab.is_of_nodes() {
        is_cleaned_up_nowhere(monitors, &[held]).await;
    }
    scene.nothing_came_of_it().await;
}
on_labs!(what_one_pool_holds_is_not_another_pools_to_give_back);

/// A genuine grant of one attempt says nothing about the next attempt. Nodes have no such grants.
#[tokio::test]
async fn a_grant_that_is_said_again_grants_nothing() {
    for ttl in LEASES {
        let mut scene = Scene::of(Lab::with_a_secret().await, ttl).await;
        scene.holder.release().await.unwrap();
        let granted = scene.waiter.await.unwrap();
        let mut genuine = Vec::new();
        until("she has heard the grant", CAP, async || {
            genuine = scene.eve.hears();
            !genuine.is_empty()
        })
        .await;
        scene.eve.say(&genuine).await; // while the lock is held
        scene.pool.ping().await.unwrap();
        granted.verify().await.unwrap();
        granted.release().await.unwrap();

        scene.holder = scene.other.lock("item").ttl(LONG).acquire().await.unwrap();
        let request = scene.pool.lock("item").ttl(ttl).wait(LONG);
        scene.waiter = scene.lab.queued("item", request).await;
        scene.looks().await;
        scene.eve.say(&genuine).await; // unchanged
        let text = String::from_utf8(genuine[0].1.clone()).unwrap();
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        lines[2].clone_from(&scene.value);
        let adapted = (channel(&scene.value), lines.join("\n").into_bytes());
        scene.eve.say(&[adapted]).await;
        scene.nothing_came_of_it().await;
    }
}

/// `min_hold` counts from the grant's time, so a time in the future would keep the key for ever.
/// Eve publishes it while the lock is really granted, just before the genuine grant.
async fn a_time_that_is_to_come_keeps_no_key(lab: Lab) {
    let (pool, other, mut eve) = (lab.pool().await, lab.pool().await, lab.eve(1).await);
    for _ in 0..10 {
        let holder = lab.lock(&other, "item", LONG).acquire().await.unwrap();
        let request = lab.lock(&pool, "item", LONG).wait(LONG).min_hold(ms(20));
        let mut waiter = lab.queued("item", request).await;
        let place = lab.waiter("item").await;
        let counter = lab.counter().await;
        let message = |time: u64| {
            let grant = format!("1|granted\nlock:item\n{place}\n{counter}\n{time}\n3000");
            [format!("{grant}\n"), format!("{grant}\n{:040x}", 7)]
        };
        let times = [counter + 3_600_000_000, u64::MAX >> 1].map(message);
        eve.look().await;
        let to_all = |it: &String| {
            let channels = eve.seen.channels.iter().cloned();
            let all = channels.map(|channel| (channel, it.clone().into_bytes()));
            all.collect::<Vec<_>>()
        };
        let messages: Vec<_> = times.as_flattened().iter().flat_map(to_all).collect();
        let (_, released) = tokio::join!(eve.say(&messages), holder.release());
        released.unwrap();
        let guard = wait::within(CAP, &mut waiter).await;
        guard.expect("its turn").unwrap().release().await.unwrap();
        until_ok("the key is not kept", CAP, async || {
            lab.is_free("item").await
        })
        .await;
    }
}
on_labs!(a_time_that_is_to_come_keeps_no_key);
