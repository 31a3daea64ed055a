//! The processes, and what they have told: who led when, and which mails each wrote.

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_harness::{Child, now_ns, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::{CAP, Failure, candidate};

/// A term as its process told it.
#[derive(Clone, Debug)]
pub(crate) struct Led {
    pub(crate) name: String,
    pub(crate) from: u64,
    /// `None` if the process was killed in it.
    pub(crate) to: Option<u64>,
    /// `in_time`, `lost`, `stopped`; `killed`.
    pub(crate) outcome: String,
}

/// Processes by their names; one that is replaced keeps its name, and its terms.
pub(crate) struct Troupe {
    url: String,
    ttl: Duration,
    running: BTreeMap<&'static str, Child>,
    /// What those told that have ended.
    ended: Vec<(&'static str, Vec<String>, Option<u64>)>,
}

impl Troupe {
    pub(crate) fn new(url: String, ttl: Duration) -> Self {
        let (running, ended) = (BTreeMap::new(), Vec::new());
        Self {
            url,
            ttl,
            running,
            ended,
        }
    }

    /// Starts a process, and waits until it is a candidate.
    pub(crate) async fn start(&mut self, name: &'static str) -> Result<(), Failure> {
        let program = std::env::current_exe()?;
        let ttl = self.ttl.as_millis().to_string();
        let arguments = [candidate::FLAG, name, &self.url, &ttl];
        let mut child = Child::spawn(program, arguments, None::<(&str, &str)>);
        child.expect_line("ready", CAP).await;
        self.running.insert(name, child);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Child, Failure> {
        let child = self.running.get(name);
        child.ok_or_else(|| format!("{name} does not run").into())
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) -> Result<(), Failure> {
        let pid = i32::try_from(self.get(name)?.pid())?;
        Ok(kill_process(Pid::from_raw(pid).ok_or("no pid")?, signal)?)
    }

    /// As SIGKILL.
    pub(crate) fn kill(&mut self, name: &'static str) -> Result<(), Failure> {
        let mut child = self.running.remove(name).ok_or("it does not run")?;
        child.kill();
        self.ended.push((name, child.lines(), Some(now_ns())));
        Ok(())
    }

    /// As SIGTERM; waits until it has ended in order.
    pub(crate) async fn end(&mut self, name: &'static str) -> Result<(), Failure> {
        self.signal(name, Signal::TERM)?;
        let mut child = self.running.remove(name).ok_or("it does not run")?;
        let status = child.wait(CAP).await;
        self.ended.push((name, child.lines(), None));
        if status.success() {
            Ok(())
        } else {
            Err(format!("{name} ended with {status}").into())
        }
    }

    /// Waits until another one than this leads, and returns its name.
    pub(crate) async fn other_than(&self, former: &str) -> &'static str {
        let mut leader = None;
        until("another one leads", CAP, async || {
            leader = self.leader().filter(|it| *it != former);
            leader.is_some()
        })
        .await;
        leader.unwrap_or_default()
    }

    /// Whose last word is that it leads.
    fn leader(&self) -> Option<&'static str> {
        let leads = |child: &Child| {
            let lines = child.lines();
            let last = lines.iter().rfind(|it| it.starts_with("le"));
            last.is_some_and(|it| it.starts_with("leads"))
        };
        let mut leaders = self.running.iter().filter(|(_, child)| leads(child));
        leaders.next().map(|(name, _)| *name)
    }

    /// Of all processes, as (name, lines, when it was killed).
    fn told(&self) -> impl Iterator<Item = (&'static str, Vec<String>, Option<u64>)> {
        let running = self
            .running
            .iter()
            .map(|(name, child)| (*name, child.lines(), None));
        self.ended.iter().cloned().chain(running)
    }

    /// All terms, in the order in which they began.
    pub(crate) fn terms(&self) -> Result<Vec<Led>, Failure> {
        let mut terms = Vec::new();
        for (name, lines, killed) in self.told() {
            let mut open: Option<Led> = None;
            for line in &lines {
                let mut words = line.split_whitespace();
                match (words.next(), words.next()) {
                    (Some("leads"), Some(at)) => {
                        open = Some(Led {
                            name: name.to_owned(),
                            from: at.parse()?,
                            to: None,
                            outcome: String::new(),
                        });
                    }
                    (Some("led"), Some(at)) => {
                        let mut led = open.take().ok_or("a term that never began")?;
                        led.to = Some(at.parse()?);
                        words
                            .next()
                            .unwrap_or_default()
                            .clone_into(&mut led.outcome);
                        terms.push(led);
                    }
                    _ => {}
                }
            }
            if let Some(mut led) = open {
                led.to = killed;
                let outcome = killed.map_or("leads", |_| "killed");
                outcome.clone_into(&mut led.outcome);
                terms.push(led);
            }
        }
        terms.sort_by_key(|led| led.from);
        Ok(terms)
    }

    /// Checks what the mailbox knows: each mail that was begun was ended, except under a process that was
    /// killed, or had lost its term. Returns how many were.
    pub(crate) fn check_mails(&self) -> Result<usize, Failure> {
        let mut mails = 0;
        for (name, lines, killed) in self.told() {
            let of = |what: &str| lines.iter().filter(|it| it.starts_with(what)).count();
            let (begun, ended) = (of("begins "), of("ends "));
            let lost = lines
                .iter()
                .filter(|it| it.starts_with("led ") && it.ends_with(" lost"));
            if begun - ended > lost.count() + usize::from(killed.is_some()) {
                let open = begun - ended;
                return Err(format!("{name} left {open} mails half written").into());
            }
            mails += ended;
        }
        Ok(mails)
    }
}
