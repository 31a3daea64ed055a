//! A network between the server and the contenders: a process of this program that runs the
//! harness's delay proxy, so that the proxy's CPU time is counted apart.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use dlock_harness::DelayProxy;

use crate::Failure;
use crate::part::{Part, told};
use crate::pins::{Pins, cpu};

/// The parent's end; the process ends with it.
pub(crate) struct Wire {
    pub(crate) each_way: Duration,
    url: String,
    part: RefCell<Part>,
}

impl Wire {
    pub(crate) fn start(
        server: SocketAddr,
        each_way: Duration,
        pins: Pins,
    ) -> Result<Self, Failure> {
        let words = ["wire".to_owned(), server.to_string()];
        let nanos = each_way.as_nanos().to_string();
        let mut part = Part::start(&[words.to_vec(), vec![nanos]].concat(), &[])?;
        // Threads that it starts later inherit the core of its first thread.
        pins.server(part.pid())?;
        part.tell("pinned")?;
        let url = part.line("carries ")?;
        Ok(Self {
            each_way,
            url,
            part: part.into(),
        })
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// The CPU time of its process so far.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let mut part = self.part.borrow_mut();
        part.tell("cpu")?;
        Ok(Duration::from_nanos(part.line("used ")?.parse()?))
    }

    /// For a title: `0.25 ms each way`.
    pub(crate) fn name(&self) -> String {
        format!("{} ms each way", self.each_way.as_secs_f64() * 1e3)
    }
}

/// Runs the process: waits until it is pinned, prints its address, then prints its CPU time
/// whenever it is asked. It ends with its parent.
pub(crate) fn carry(server: &str, each_way: &str) -> Result<(), Failure> {
    let each_way = Duration::from_nanos(each_way.parse()?);
    told()?;
    let proxy = DelayProxy::start(server.parse()?, each_way);
    println!("carries {}", proxy.url());
    while told().is_ok() {
        println!("used {}", cpu().as_nanos());
    }
    // Also ends the connections that are still open.
    std::process::exit(0)
}
