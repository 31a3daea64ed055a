//! A minimal Redis client, on std alone: for readiness checks and MONITOR, where a client library
//! would send commands of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wait::scaled;

const CAP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct RawClient(BufReader<TcpStream>);

impl RawClient {
    pub(super) fn connect(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, scaled(CAP))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(scaled(CAP)))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends one command and reads one line: the whole reply of a command that answers with a
    /// status, an error or an integer.
    pub(super) fn line(&mut self, args: &[&str]) -> io::Result<String> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            write!(request, "${}\r\n{arg}\r\n", arg.len())?;
        }
        self.0.get_mut().write_all(&request)?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// The stream, for reading without a timeout from now on. The buffer is kept: lines may already
    /// be in it.
    pub(super) fn into_reader(self) -> io::Result<BufReader<TcpStream>> {
        self.0.get_ref().set_read_timeout(None)?;
        Ok(self.0)
    }
}
