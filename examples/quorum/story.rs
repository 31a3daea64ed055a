//! What happens to the servers, and what the processes see of it.

use std::error::Error as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dlock_runtime::{LockError, LockPool};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::resource::Resource;
use crate::server::Server;
use crate::{COMMAND_TIMEOUT, Failure, MAX_TTL, config, grant, picture, worker};

const SERVERS: usize = 5;
const PROCESSES: u32 = 4;
const INCREMENTS: u32 = 75;

/// How long the call waits that finds no quorum.
const WAIT: Duration = Duration::from_secs(1);

/// A machine that runs other things as well may run this one late.
const BUSY: Duration = Duration::from_millis(500);

pub(crate) async fn tell(svg: Option<PathBuf>) -> Result<(), Failure> {
    let story = Story::begin().await?;
    let pool = story.first_lock().await?;
    if let Some(path) = svg {
        let grant = grant::record(&story.addresses()[..3]).await?;
        let written = std::fs::write(&path, picture::svg(&grant));
        written.map_err(|why| format!("can't write {}: {why}", path.display()))?;
        story.say(format_args!("the picture is in {}", path.display()));
    }
    let story = story.count().await?;
    story.without_quorum(&pool).await
}

struct Story {
    began: Instant,
    /// Each with its address, until it is killed.
    servers: Vec<(String, Option<Server>)>,
}

impl Story {
    async fn begin() -> Result<Self, Failure> {
        let mut story = Self {
            began: Instant::now(),
            servers: Vec::new(),
        };
        for _ in 0..SERVERS {
            let (url, server) = Server::start_silently(false).await?;
            let address = url.trim_start_matches("redis://").to_owned();
            story.servers.push((address, Some(server)));
        }
        story.say(format_args!("{SERVERS} servers run: {}", story.url()));
        Ok(story)
    }

    fn addresses(&self) -> Vec<String> {
        let addresses = self.servers.iter().map(|(address, _)| address.clone());
        addresses.collect()
    }

    fn url(&self) -> String {
        format!("redlock://{}", self.addresses().join(","))
    }

    /// Shows why the first lock after a fresh start has to wait.
    async fn first_lock(&self) -> Result<LockPool, Failure> {
        let pool = LockPool::connect(config(&self.url())).await?;
        match pool.lock("first").wait(Duration::ZERO).acquire().await {
            // On a machine that stood still for so long there is nothing to show.
            Ok(_) if self.began.elapsed() > MAX_TTL => self.say(format_args!(
                "a lock is asked for, so late that the servers vote already"
            )),
            Ok(_) => {
                let since = self.began.elapsed();
                return Err(format!("servers voted that were started {since:?} ago").into());
            }
            Err(error) => self.say(format_args!("a lock is asked for: {}", reason(&error))),
        }
        self.say(format_args!(
            "a server may have forgotten locks when it was restarted, so it does not vote for {MAX_TTL:?} (`max_ttl`) and up to a second more; a call waits for that"
        ));
        let lock = pool.lock("first").wait(Duration::from_secs(20));
        let lock = lock.acquire().await?;
        self.say(format_args!("the first lock, with fence {}", lock.fence()));
        lock.release().await?;
        Ok(pool)
    }

    /// The processes count while two servers are killed.
    async fn count(mut self) -> Result<Self, Failure> {
        let resource = Arc::new(Mutex::new(Resource::default()));
        let (sender, mut counter) = watch::channel(0);
        let tell = Arc::new(sender);
        let mut served = Vec::new();
        for _ in 0..PROCESSES {
            let process = start_worker(&self.url())?;
            served.push(tokio::spawn(serve(process, resource.clone(), tell.clone())));
        }
        drop(tell);
        let all = u64::from(PROCESSES * INCREMENTS);
        self.say(format_args!(
            "{PROCESSES} processes increment a counter {INCREMENTS} times each, under a lock of all servers"
        ));
        for (server, at) in [(0, all / 3), (1, all * 2 / 3)] {
            // An error: all workers have ended, and the checks below say how.
            if let Ok(value) = counter.wait_for(|it| *it >= at).await.map(|it| *it) {
                self.kill(server, &format!("the counter is {value}: "));
            }
        }
        for served in served {
            served.await??;
        }
        let resource = resource.lock().unwrap_or_else(PoisonError::into_inner);
        let Resource {
            value,
            fences,
            refused,
            ..
        } = &*resource;
        self.say(format_args!(
            "the counter is {value}, after {fences} fences, each above the one before; {refused} late requests were refused"
        ));
        if *value != all || *fences < all {
            return Err(format!("{all} increments should have been counted").into());
        }
        drop(resource);
        Ok(self)
    }

    /// A third server is killed.
    async fn without_quorum(mut self, pool: &LockPool) -> Result<(), Failure> {
        self.kill(2, "");
        let asked = Instant::now();
        let call = pool.lock("counter").wait(WAIT).acquire().await;
        let took = asked.elapsed();
        match call {
            Err(error @ LockError::Unavailable { .. }) => self.say(format_args!(
                "a call with a `wait` of {WAIT:?} and a `command_timeout` of {COMMAND_TIMEOUT:?} ends after {} ms: {}",
                took.as_millis(),
                reason(&error)
            )),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("a lock was given by two of five servers".into()),
        }
        if took > WAIT + COMMAND_TIMEOUT + BUSY {
            return Err("that is longer than its wait and one command timeout".into());
        }
        Ok(())
    }

    fn kill(&mut self, server: usize, when: &str) {
        if let Some((address, server)) = self.servers.get_mut(server) {
            drop(server.take()); // kills it
            let address = address.clone();
            let left = self.servers.iter().filter(|it| it.1.is_some()).count();
            self.say(format_args!(
                "{when}server {address} is killed, {left} are left"
            ));
        }
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        println!("{:>7.3} s  {what}", self.began.elapsed().as_secs_f64());
    }
}

/// The error and what caused it, with each node on a line.
fn reason(error: &LockError) -> String {
    let Some(cause) = error.source() else {
        return error.to_string();
    };
    let cause = cause
        .to_string()
        .replace(" redis://", "\n             redis://");
    format!("{error}\n           {cause}")
}

fn start_worker(url: &str) -> Result<Child, Failure> {
    let child = Command::new(std::env::current_exe()?)
        .args([worker::FLAG, url, &INCREMENTS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}

/// Answers a process until it ends.
async fn serve(
    mut process: Child,
    resource: Arc<Mutex<Resource>>,
    counted: Arc<watch::Sender<u64>>,
) -> Result<(), Failure> {
    let pipes = process.stdin.take().zip(process.stdout.take());
    let (mut input, output) = pipes.ok_or("a worker without pipes")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        let (answer, value) = {
            let mut resource = resource.lock().unwrap_or_else(PoisonError::into_inner);
            (resource.answer(&line)?, resource.value)
        };
        counted.send_replace(value);
        input.write_all(answer.line().as_bytes()).await?;
    }
    let status = process.wait().await?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("a worker failed: {status}").into())
    }
}
