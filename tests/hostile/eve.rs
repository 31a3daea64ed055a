//! Eve, the attacker: a client with the rights to read and listen records what it sees, and
//! publishes messages.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use dlock_tests::Seeded;
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value};
use tokio::task::JoinHandle;

use crate::lab::channel;

/// The maximum number of things that Eve remembers.
const REMEMBERS: usize = 400;

pub(crate) type Message = (String, Vec<u8>);

pub(crate) struct Eve {
    /// One to each server.
    connections: Vec<MultiplexedConnection>,
    pub(crate) seeded: Seeded,
    heard: Arc<Mutex<Vec<Message>>>,
    listens: Vec<JoinHandle<()>>,
    pub(crate) seen: Seen,
}

/// What Eve has seen at keys and in queues, now and before.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) keys: BTreeSet<String>,
    pub(crate) channels: BTreeSet<String>,
    /// Present and past holders and waiters, the latest last.
    pub(crate) sights: Vec<Sight>,
    /// Messages that scripts really published.
    pub(crate) messages: Vec<Message>,
    /// The last epoch that the server drew.
    pub(crate) counter: u64,
}

/// A waiter or a holder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sight {
    pub(crate) key: String,
    pub(crate) value: String,
    /// The channel of its grants; empty if its value has no address.
    pub(crate) channel: String,
}

impl Eve {
    pub(crate) async fn at(urls: impl IntoIterator<Item = String>, seed: u64) -> Self {
        let mut eve = Self {
            connections: Vec::new(),
            seeded: Seeded(seed),
            heard: Arc::default(),
            listens: Vec::new(),
            seen: Seen::default(),
        };
        for url in urls {
            eve.enters(&url).await;
        }
        eve
    }

    async fn enters(&mut self, url: &str) {
        let client = Client::open(url).unwrap();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None); // the machine may be busy
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        self.connections.push(connection.await.unwrap());
        let mut listener = client.get_async_pubsub().await.unwrap();
        listener.psubscribe("*").await.unwrap();
        let ear = self.heard.clone();
        self.listens.push(tokio::spawn(async move {
            let mut messages = listener.into_on_message();
            while let Some(message) = messages.next().await {
                let channel = message.get_channel_name().to_owned();
                let mut heard = ear.lock().unwrap_or_else(PoisonError::into_inner);
                // Grants are short; Eve's own messages come back too, and most of those are not.
                if heard.len() < REMEMBERS && message.get_payload_bytes().len() < 1000 {
                    heard.push((channel, message.get_payload_bytes().to_vec()));
                }
            }
        }));
    }

    /// The messages received so far, Eve's own among them.
    pub(crate) fn hears(&self) -> Vec<Message> {
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Reads every key that Eve may read.
    pub(crate) async fn look(&mut self) {
        for at in 0..self.connections.len() {
            self.looks(at).await;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen.messages.append(&mut heard);
        drop(heard);
        let Seen {
            sights, messages, ..
        } = &mut self.seen;
        sights.drain(..sights.len().saturating_sub(REMEMBERS));
        messages.drain(..messages.len().saturating_sub(REMEMBERS));
    }

    async fn looks(&mut self, at: usize) {
        let mut keys: Vec<String> = self.ask(at, &["KEYS", "lock:*"]).await;
        keys.sort(); // the queues come last, because their entries are the next holders
        keys.reverse();
        for key in keys {
            match &*self.ask::<String>(at, &["TYPE", &key]).await {
                "string" if key.starts_with("lock:@fence") => {
                    let counter: Option<u64> = self.ask(at, &["GET", &key]).await;
                    self.seen.counter = self.seen.counter.max(counter.unwrap_or(0));
                }
                "string" => {
                    let value: Option<String> = self.ask(at, &["GET", &key]).await;
                    self.sees(value.map(|value| Sight {
                        key,
                        channel: channel(&value),
                        value,
                    }));
                }
                "zset" => {
                    let members: Vec<String> = self.ask(at, &["ZRANGE", &key, "0", "-1"]).await;
                    if key.starts_with("lock:@h:") {
                        self.seen.channels.extend(members);
                        continue;
                    }
                    let of = key.split(['{', '}']).nth(1).unwrap_or(&key);
                    let members = members.iter().filter(|it| !it.starts_with("1|#|"));
                    self.sees(members.map(|member| Sight {
                        key: of.to_owned(),
                        value: member.clone(),
                        channel: channel(member),
                    }));
                }
                _ => {}
            }
        }
    }

    fn sees(&mut self, sights: impl IntoIterator<Item = Sight>) {
        for sight in sights {
            self.seen.keys.insert(sight.key.clone());
            if !sight.channel.is_empty() {
                self.seen.channels.insert(sight.channel.clone());
            }
            self.seen.sights.retain(|it| *it != sight);
            self.seen.sights.push(sight);
        }
    }

    /// Publishes all messages in one pipeline at each server; returns how many subscribers received
    /// them.
    pub(crate) async fn say(&mut self, messages: &[Message]) -> u64 {
        let mut pipe = redis::pipe();
        for (channel, payload) in messages {
            pipe.cmd("PUBLISH").arg(channel).arg(payload);
        }
        let mut all = 0;
        for connection in &mut self.connections {
            let heard: Vec<u64> = pipe.query_async(connection).await.unwrap();
            all += heard.iter().sum::<u64>();
        }
        all
    }

    /// Asks one of the servers.
    async fn ask<T: redis::FromRedisValue>(&mut self, at: usize, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        let reply: Value = command
            .arg(&words[1..])
            .query_async(&mut self.connections[at])
            .await
            .unwrap_or_else(|error| panic!("{words:?}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }
}

impl Drop for Eve {
    fn drop(&mut self) {
        self.listens.iter().for_each(JoinHandle::abort);
    }
}
