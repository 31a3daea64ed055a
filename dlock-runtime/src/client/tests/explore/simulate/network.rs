//! The virtual network: one connection is in order both ways, two are not. Messages on the way when
//! a connection ends are lost, or executed later, as a server still reads from its socket what
//! arrived before the end.

use fastrand::Rng;

/// How long a message takes, in µs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) least: u64,
    pub(super) usual: u64,
    /// Once in this many messages a packet is lost, and is sent again.
    pub(super) lost_once_in: u32,
}

impl Latency {
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let usual = self.least + rng.u64(0..=self.usual);
        if rng.u32(0..self.lost_once_in) == 0 {
            usual + 200_000 + rng.u64(0..400_000)
        } else {
            usual
        }
    }
}

/// What becomes of the commands on the way when a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnItsWay {
    Lost,
    /// Executed, at this time or later; the answers are not read.
    Executed {
        from: u64,
    },
}

/// One connection of a process.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Its process.
    pub(super) at: usize,
    pub(super) watchdog: bool,
    /// Its number in the address.
    pub(super) number: u32,
    /// When the latest message arrives: the next one comes after it.
    to_server: u64,
    to_client: u64,
    pushed: u64,
    /// Nothing arrives before then, either way.
    pub(super) blocked_until: u64,
    /// The client has replaced it, or is dead.
    pub(super) client_gone: Option<OnItsWay>,
    /// The server has closed it.
    pub(super) server_gone: bool,
    /// Nothing passes any more, and neither side knows.
    pub(super) dead: bool,
    /// The end of this connection is reported only once.
    pub(super) told: bool,
}

impl Link {
    pub(super) fn new(at: usize, watchdog: bool, number: u32) -> Self {
        Self {
            at,
            watchdog,
            number,
            to_server: 0,
            to_client: 0,
            pushed: 0,
            blocked_until: 0,
            client_gone: None,
            server_gone: false,
            dead: false,
            told: false,
        }
    }

    pub(super) fn works(&self, now: u64) -> bool {
        self.client_gone.is_none() && !self.server_gone && !self.dead && self.blocked_until <= now
    }

    /// When a command sent now arrives.
    pub(super) fn request(&mut self, now: u64, takes: u64) -> u64 {
        self.to_server = self.arrives(now, takes).max(self.to_server + 1);
        self.to_server
    }

    pub(super) fn reply(&mut self, now: u64, takes: u64) -> u64 {
        self.to_client = self.arrives(now, takes).max(self.to_client + 1);
        self.to_client
    }

    /// A push comes on the connection of the replies, or on one of its own.
    pub(super) fn push(&mut self, now: u64, takes: u64, apart: bool) -> u64 {
        if !apart {
            return self.reply(now, takes);
        }
        self.pushed = self.arrives(now, takes).max(self.pushed + 1);
        self.pushed
    }

    fn arrives(&self, now: u64, takes: u64) -> u64 {
        now.max(self.blocked_until) + takes
    }
}
