//! Lines that another process or server writes, collected by a thread, with a way to wait for the
//! next one that fits.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::wait::within;

/// All lines so far. Cloning shares them.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    all: Arc<Mutex<Vec<String>>>,
    /// The number of lines; the sender is dropped at the end of the input.
    count: watch::Receiver<usize>,
}

impl Lines {
    /// Reads `source` to its end on a thread of its own.
    pub(crate) fn collect(source: impl Read + Send + 'static) -> Self {
        let all = Arc::new(Mutex::new(Vec::new()));
        let (sender, count) = watch::channel(0);
        let sink = Arc::clone(&all);
        thread::spawn(move || {
            let mut reader = BufReader::new(source);
            let mut raw = Vec::new();
            while reader.read_until(b'\n', &mut raw).is_ok_and(|n| n > 0) {
                let text = String::from_utf8_lossy(&raw);
                let mut lines = sink.lock().unwrap();
                lines.push(text.trim_end_matches(['\r', '\n']).to_owned());
                sender.send_replace(lines.len());
                drop(lines);
                raw.clear();
            }
        });
        Self { all, count }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.all.lock().unwrap().clone()
    }

    /// The first line at or after index `from` that fits, with its index. Panics with `what` and
    /// all lines after the cap, or when the input ended without it.
    pub(crate) async fn find(
        &self,
        what: &str,
        from: usize,
        cap: Duration,
        fits: impl Fn(&str) -> bool,
    ) -> (usize, String) {
        let mut count = self.count.clone();
        let search = async {
            let mut next = from;
            loop {
                count.mark_unchanged();
                for (index, line) in self.all().into_iter().enumerate().skip(next) {
                    if fits(&line) {
                        return Some((index, line));
                    }
                    next = index + 1;
                }
                if count.changed().await.is_err() && self.all().len() <= next {
                    return None;
                }
            }
        };
        match within(cap, search).await {
            Some(Some(found)) => found,
            Some(None) => panic!("the input ended without {what}; it was {:#?}", self.all()),
            None => panic!("no {what} within {cap:?}; so far: {:#?}", self.all()),
        }
    }
}
