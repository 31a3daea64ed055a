//! A private server, the links to it, and what is seen there after a step: replies or an answer,
//! pushes, and all that is stored.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dlock_harness::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, PushInfo, PushKind, Value};

use super::masks::{Masks, Span, left};
use super::operations::{self, Operation};
use super::session::Step;
use super::{Build, old_scripts};
use crate::link::redis::grant_key::{GrantKey, Proof};
use crate::link::redis::link::RedisLink;
use crate::link::redis::tests::{lab, node};

/// The channel that is listened to. Nobody listens to any other.
const HEARD: &str = "lock:@grant:heard";

/// All that is stored, but for what a node knows of its quorum, which no script of a lock reads.
const STORED: &str = "
local stored, keys = {redis.call('TIME')}, redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  local kind = redis.call('TYPE', key).ok
  local what = kind == 'string' and {redis.call('GET', key)}
    or kind == 'zset' and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    or redis.call('LRANGE', key, 0, -1)
  if key ~= 'lock:@quorum' then
    stored[#stored + 1] = {key, kind, redis.call('PTTL', key), what}
  end
end
stored[#stored + 1] = redis.call('TIME')
return stored";

/// In µs; otherwise a time to live was not read at the time that was read before it.
const READ_WITHIN: u64 = 1_000;

/// A key, its type, how many ms it has to live, and its value, or its members with their scores.
type Stored = (String, String, i64, Vec<String>);

/// Two steps that take longer, in µs, can't tell their times apart, nor come before a writer's turn
/// is over; a longer scenario can't say what is left of a claim.
const TWO_STEPS_AT_MOST: u64 = 250_000;
const SCENARIO_AT_MOST: Duration = Duration::from_millis(2500);

pub(super) struct Stage {
    _server: RedisServer,
    /// To the server, and to the same server as a node.
    links: [RedisLink; 2],
    is_node: bool,
    direct: MultiplexedConnection,
    heard: Arc<Mutex<Vec<String>>>,
    grant_key: GrantKey,
    texts: BTreeMap<String, String>,
    masks: Masks,
}

impl Stage {
    pub(super) async fn new(entries: &[(String, String)]) -> Self {
        let server = RedisServer::start();
        let links = [
            lab::link(&server.url()).await,
            node::link(&server.url()).await,
        ];
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let listener = heard.clone();
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            if let (PushKind::Message, Some(message)) = (&push.kind, push.data.last()) {
                listener.lock().unwrap().push(text(message));
            }
            Ok::<(), Infallible>(())
        });
        let client = Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut direct = connecting.await.unwrap();
        direct.subscribe(HEARD).await.unwrap();

        let grant_key = lab::plan(&server.url()).grant_key;
        let about: String = server.ask(&["INFO", "server"]).await;
        let run_id = about.split_once("run_id:").unwrap().1[..16].to_owned();
        let here = ("<here>".to_owned(), run_id.clone());
        let entries = entries
            .iter()
            .map(|(name, entry)| (format!("<{name}>"), entry.replace(&here.0, &run_id)));
        let key = ("<K>".to_owned(), grant_key.argument().to_owned());
        let names = entries.chain([here.clone(), key]).collect();
        Self {
            _server: server,
            links,
            is_node: false,
            direct,
            heard,
            grant_key,
            texts: old_scripts::texts(),
            masks: Masks::new(names),
        }
    }

    /// Begins a scenario.
    pub(super) async fn clear(&mut self, is_node: bool) {
        self.is_node = is_node;
        let _: Value = self.ask(&["FLUSHALL".to_owned()]).await;
        self.heard.lock().unwrap().clear();
        self.masks.clear();
    }

    /// What is seen of each step; `None`: the machine was too slow.
    pub(super) async fn all(
        &mut self,
        steps: &[Step],
        by: fn(usize) -> Build,
    ) -> Option<Vec<Vec<String>>> {
        let (began, mut all) = (Instant::now(), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            all.push(self.step(at + 1, step, by(at)).await?);
        }
        (began.elapsed() < SCENARIO_AT_MOST).then_some(all)
    }

    async fn step(&mut self, at: usize, step: &Step, by: Build) -> Option<Vec<String>> {
        // Ends that two steps set can be told apart.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let begins = self.time().await;
        let told = self.done(at, step, by, begins).await;
        let (span, stored) = self.stored(begins).await;
        let before = self.masks.span().begins;
        let from = if before == 0 { begins } else { before };
        if span.ends - from > TWO_STEPS_AT_MOST {
            return None;
        }
        self.masks.begin_step(span);
        let mut seen: Vec<_> = told.iter().map(|it| self.masks.text(it)).collect();
        for message in std::mem::take(&mut *self.heard.lock().unwrap()) {
            let (message, mac) = message.rsplit_once('\n').unwrap();
            let is_right = self.grant_key.check(HEARD, message, mac) == Proof::Right;
            let mac = if is_right { "<MAC>" } else { mac };
            let lines = format!("! {message}\n{mac}").replace('\n', " / ");
            seen.push(self.masks.text(&lines));
        }
        for (key, kind, pttl, what) in stored {
            let end = self.masks.end(&key, pttl, &what);
            let what = if kind == "zset" {
                let pairs = what.chunks(2).map(|it| format!("{} {}", it[1], it[0]));
                pairs.collect::<Vec<_>>().join(", ")
            } else {
                what.join(", ")
            };
            let what = self.masks.text(&what);
            seen.push(format!("  {key} until {end}: {what}"));
        }
        Some(seen)
    }

    /// Does a step, and returns the replies or the answer.
    async fn done(&self, at: usize, step: &Step, by: Build, now: u64) -> Vec<String> {
        if let Some(command) = step.operation.strip_prefix("tell ") {
            self.tell(command, now).await;
            return Vec::new();
        }
        if by == Build::New {
            let link = &self.links[usize::from(self.is_node)];
            let entry = |name: &str| self.masks.unmasked(name, now);
            let all = step.operation.split(", ");
            let all: Vec<_> = all.map(|it| Operation::read(it, now, entry)).collect();
            let answer = operations::answer(link, &all, self.is_node).await;
            return vec![format!("= {answer}")];
        }
        let mut replies = Vec::<String>::new();
        for sent in &step.sent {
            // An epoch that one command drew is told to the next.
            let drawn = replies.last().map_or("", |it| it.trim_start_matches("< "));
            let sent = sent.replace(&format!(" E{at}"), &format!(" {drawn}"));
            replies.push(format!("< {}", self.tell(&sent, now).await));
        }
        replies
    }

    /// Sends a recorded command past the links; returns the reply.
    async fn tell(&self, command: &str, now: u64) -> String {
        let words = old_scripts::call(&self.texts, command);
        let words: Vec<_> = words
            .iter()
            .map(|it| self.masks.unmasked(it, now))
            .collect();
        let mut call = Cmd::new();
        call.arg(&words);
        match call.query_async::<Value>(&mut self.direct.clone()).await {
            Ok(reply) => text(&reply),
            Err(error) => format!("error {}", error.code().unwrap_or_default()),
        }
    }

    async fn time(&self) -> u64 {
        micros(self.ask(&["TIME".to_owned()]).await)
    }

    async fn stored(&self, begins: u64) -> (Span, Vec<Stored>) {
        let words = ["EVAL", STORED, "0"].map(str::to_owned);
        loop {
            let mut all: Vec<Value> = self.ask(&words).await;
            let [read, ends] = [all.pop().unwrap(), all.remove(0)].map(micros);
            if read - ends > READ_WITHIN {
                continue;
            }
            let stored = all.into_iter().map(FromRedisValue::from_redis_value);
            let stored: Vec<Stored> = stored.map(Result::unwrap).collect();
            let counter = stored.iter().find(|(key, ..)| key.contains("@fence"));
            let span = Span {
                begins,
                ends,
                counter_before: self.masks.span().counter,
                counter: counter.map_or(0, |(.., what)| what[0].parse().unwrap_or(0)),
            };
            return (span, stored);
        }
    }

    async fn ask<T: FromRedisValue>(&self, words: &[String]) -> T {
        let mut command = Cmd::new();
        command.arg(words);
        let answer = command.query_async(&mut self.direct.clone()).await;
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }
}

/// The answer of `TIME`.
fn micros(time: Value) -> u64 {
    let [seconds, micros] = <[u64; 2]>::from_redis_value(time).unwrap();
    seconds * 1_000_000 + micros
}

/// A reply, or a part of one.
fn text(reply: &Value) -> String {
    match reply {
        Value::Nil => "nil".to_owned(),
        Value::Int(number @ 200..=3_600_000) => left(Duration::from_millis(number.unsigned_abs())),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) if bytes.is_empty() => "''".to_owned(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(text).collect();
            format!("[{}]", items.join(", "))
        }
        other => format!("{other:?}"),
    }
}
