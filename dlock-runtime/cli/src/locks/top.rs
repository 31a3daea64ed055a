//! `dlock top`: who holds and waits, again and again, most waiters first.
//!
//! Plain escape sequences and whole lines, so that it works over a slow connection. Invariant: the
//! terminal is as before when it ends, however that is.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::time::Duration;

use dlock_runtime::{Admin, LockReport};
use rustix::process::Signal;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::describe;
use super::list::Found;
use crate::args::TopArgs;
use crate::output::{self, Notices};
use crate::run::signals;
use crate::status::Failure;
use crate::{server, table};

/// The most locks that are read for one picture.
const LOCKS: usize = 10_000;
/// The size of a terminal that does not say.
const COLUMNS_AND_ROWS: (u16, u16) = (80, 24);

/// Shows the locks until `q` or Ctrl-C.
pub(crate) async fn top(args: TopArgs, url: Option<&str>, notices: Notices) -> Result<u8, Failure> {
    if args.every < Duration::from_millis(100) {
        return Err(Failure::usage(
            "`--every` must be at least 100ms, to spare the server",
        ));
    }
    let pool = server::connect(url).await?;
    args.verbatim.check(&args.pattern, pool.namespace())?;
    let admin = pool.admin();
    if args.once || notices.json {
        return once(&admin, &args, notices).await;
    }
    if table::size().is_none() {
        return Err(Failure::usage(
            "`top` needs a terminal at standard output; for a script give `--once` or `--json`",
        ));
    }
    let mut stop = signals::receive([Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT])
        .map_err(|error| Failure::internal(format!("can't receive signals: {error}")))?;
    let mut keys = keys();
    let screen = Screen::open()?;
    let mut ticks = interval(args.every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let began = Instant::now();
                let picture = picture(&admin, &args, began).await?;
                output::print(&picture)?;
            }
            Some(b'q' | b'Q' | 3 | 4) = keys.recv() => break,
            _ = stop.recv() => break,
        }
    }
    drop(screen);
    Ok(0)
}

async fn once(admin: &Admin, args: &TopArgs, notices: Notices) -> Result<u8, Failure> {
    let found = sorted(admin, args).await?;
    if notices.json {
        let json = |lock| describe::json(lock, found.has_queue);
        let locks: Vec<_> = found.locks.iter().map(json).collect();
        let complete = found.is_all && found.missing.is_empty();
        let all = json!({"locks": locks, "complete": complete, "missing": found.missing});
        output::print(&format!("{all}\n"))?;
        return Ok(found.status());
    }
    found.print(notices)?;
    if !found.is_all {
        let message = format!("there are more than {LOCKS}: narrow the pattern");
        notices.say("more", &message);
    }
    Ok(found.status())
}

/// The locks with the most waiters first, then those that were waited for longest.
async fn sorted(admin: &Admin, args: &TopArgs) -> Result<Found, Failure> {
    let mut found = Found::read(admin, &args.pattern, LOCKS).await?;
    let rank = |lock: &LockReport| (lock.waiter_count(), lock.waiting());
    found.locks.sort_by(|one, other| {
        let by_waiting = rank(other).cmp(&rank(one));
        by_waiting.then_with(|| one.key().cmp(other.key()))
    });
    Ok(found)
}

/// What the screen shows next. An outage is shown, not fatal: it may be why somebody looks.
async fn picture(admin: &Admin, args: &TopArgs, began: Instant) -> Result<String, Failure> {
    let (width, height) = table::size().unwrap_or(COLUMNS_AND_ROWS);
    let (head, body) = match sorted(admin, args).await {
        Ok(found) => {
            let waiting: usize = found.locks.iter().map(LockReport::waiter_count).sum();
            let waiting = if found.has_queue {
                format!("{waiting} waiting")
            } else {
                "who waits can't be seen".to_owned()
            };
            let missing = match found.missing.len() {
                0 => String::new(),
                servers => format!(" on the servers that answer, {servers} missing"),
            };
            let more = if found.is_all { "" } else { " or more" };
            let head = format!(
                "{}{more} held, {waiting}{missing}; read in {}; every {}; q quits",
                found.locks.len(),
                table::about(began.elapsed()),
                table::about(args.every),
            );
            let fit = usize::from(height).saturating_sub(3);
            (cut(&head, width), lines(found.rows().take(fit), width))
        }
        Err(failure) if failure.status == crate::status::UNAVAILABLE => {
            (failure.message.unwrap_or_default(), String::new())
        }
        Err(failure) => return Err(failure),
    };
    let mut picture = String::from("\x1b[H");
    let lines = [head.as_str(), ""].into_iter().chain(body.lines());
    for line in lines.take(usize::from(height).saturating_sub(1)) {
        picture.push_str(line);
        picture.push_str("\x1b[K\r\n");
    }
    picture.push_str("\x1b[J");
    Ok(picture)
}

/// The part of a text that fits on one line.
fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// A line for each lock. Where the screen is too narrow for all columns, those stay that say most.
fn lines(rows: impl Iterator<Item = [String; 7]>, width: u16) -> String {
    let shown: &[usize] = match width {
        72.. => &[0, 1, 2, 3, 4, 5, 6],
        46.. => &[0, 2, 5, 6],
        30.. => &[0, 2, 5],
        _ => &[0, 5],
    };
    let header: Vec<&str> = pick(&describe::HEADER, shown);
    let rows: Vec<Vec<String>> = rows.map(|row| pick(&row, shown)).collect();
    table::render_lines(&header, &rows, width)
}

fn pick<T: Clone>(cells: &[T], shown: &[usize]) -> Vec<T> {
    shown
        .iter()
        .filter_map(|at| cells.get(*at).cloned())
        .collect()
}

/// The keys that are pressed, from a thread of its own: a read can't be interrupted.
fn keys() -> mpsc::UnboundedReceiver<u8> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut key = [0];
        while std::io::stdin().read_exact(&mut key).is_ok() {
            if sender.send(key[0]).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The alternate screen, without a cursor and without an echo of keys; dropped, all is as before.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    fn open() -> Result<Self, Failure> {
        let stdin = std::io::stdin();
        let before = tcgetattr(stdin.as_fd()).ok(); // standard input may be something else
        if let Some(before) = &before {
            let mut now = before.clone();
            now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            now.special_codes[SpecialCodeIndex::VMIN] = 1;
            now.special_codes[SpecialCodeIndex::VTIME] = 0;
            now.special_codes[SpecialCodeIndex::VSUSP] = 0; // stopped, it would keep the screen
            let _ = tcsetattr(stdin.as_fd(), OptionalActions::Now, &now);
        }
        let screen = Self { before };
        output::print("\x1b[?1049h\x1b[?25l\x1b[2J")?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = output::print("\x1b[?25h\x1b[?1049l"); // nobody looks any longer
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Now, before);
        }
    }
}
