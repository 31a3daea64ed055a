//! Finds where a RESP frame ends: RESP2 and RESP3, requests and replies, in whatever pieces they
//! arrive.
//!
//! Frames are found, not interpreted. Bytes that are not RESP pass unchanged, so that a test may
//! send garbage through the proxy.

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    side: Side,
    /// Some bytes were not RESP: no boundary after them can be trusted.
    opaque: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Arrays of bulk strings, and inline commands.
    Requests,
    Replies,
}

impl Splitter {
    /// For what a client sends.
    #[must_use]
    pub fn requests() -> Self {
        Self::new(Side::Requests)
    }

    /// For what a server sends.
    #[must_use]
    pub fn replies() -> Self {
        Self::new(Side::Replies)
    }

    fn new(side: Side) -> Self {
        Self {
            buffer: Vec::new(),
            side,
            opaque: false,
        }
    }

    /// Adds bytes as they were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame. An attribute (`|`) comes with the reply that it belongs to.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        let length = match frame_length(&self.buffer, self.side) {
            _ if self.opaque => self.buffer.len(),
            Ok(length) => length?,
            Err(NotResp) => {
                self.opaque = true;
                self.buffer.len()
            }
        };
        let frame: Vec<u8> = self.buffer.drain(..length).collect();
        (!frame.is_empty()).then_some(frame)
    }

    /// Takes the remaining bytes, complete or not.
    #[must_use]
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

/// The strings of a frame that is an array, a push or an inline command, up to its first element of
/// another type.
#[must_use]
pub fn words(frame: &[u8]) -> Vec<&[u8]> {
    let [b'*' | b'>', ..] = frame else {
        let inline = frame.split(u8::is_ascii_whitespace);
        return inline.filter(|word| !word.is_empty()).collect();
    };
    let mut words = Vec::new();
    let mut rest = line_end(frame).map_or(&[][..], |end| &frame[end..]);
    while let [b'$', ..] = rest
        && let Some(start) = line_end(rest)
        && let Ok(length) = number(&rest[1..start - 2])
        && let Ok(length) = usize::try_from(length)
        && let Some(word) = rest.get(start..start + length)
    {
        words.push(word);
        rest = rest.get(start + length + 2..).unwrap_or_default();
    }
    words
}

/// How a frame from a server relates to the requests before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The reply to one request, in the order of the requests.
    Reply,
    /// A confirmation of SUBSCRIBE and the like: one request has as many of them as channels, and
    /// no other reply.
    Confirmation,
    /// Answers no request: a RESP3 push, or what RESP2 sends to subscribers.
    Message,
}

impl Kind {
    /// Decides by the first word: in RESP2, any array that begins with `message` is taken for a
    /// message.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        if !frame.starts_with(b"*") && !frame.starts_with(b">") {
            return Self::Reply;
        }
        match words(frame).first() {
            Some(word) if SUBSCRIPTIONS.contains(word) => Self::Confirmation,
            Some(word) if MESSAGES.contains(word) => Self::Message,
            _ if frame.starts_with(b">") => Self::Message,
            _ => Self::Reply,
        }
    }
}

/// Whether a request is answered by [`Kind::Confirmation`]s instead of a reply (or by an error, if
/// it is refused).
#[must_use]
pub fn is_subscription(request: &[u8]) -> bool {
    let name = words(request).first().map(|name| name.to_ascii_lowercase());
    name.is_some_and(|name| SUBSCRIPTIONS.contains(&name.as_slice()))
}

const MESSAGES: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];
const SUBSCRIPTIONS: [&[u8]; 6] = [
    b"subscribe",
    b"psubscribe",
    b"ssubscribe",
    b"unsubscribe",
    b"punsubscribe",
    b"sunsubscribe",
];

struct NotResp;

/// The length of the first frame, if it is complete. Counts the elements still missing instead of
/// recursing.
fn frame_length(buffer: &[u8], side: Side) -> Result<Option<usize>, NotResp> {
    if side == Side::Requests && !buffer.starts_with(b"*") {
        let newline = buffer.iter().position(|&byte| byte == b'\n');
        return Ok(newline.map(|at| at + 1));
    }
    let mut end = 0;
    let mut owed: u64 = 1;
    while owed > 0 {
        let Some(&kind) = buffer.get(end) else {
            return Ok(None);
        };
        if !b"+-:_,#(*~>%|$=!".contains(&kind) {
            return Err(NotResp);
        }
        let Some(line) = line_end(&buffer[end..]) else {
            return Ok(None);
        };
        let head = &buffer[end + 1..end + line - 2];
        end += line;
        owed -= 1;
        match kind {
            b'*' | b'~' | b'>' => owed += elements(head)?,
            b'%' => owed += 2 * elements(head)?,
            b'|' => owed += 2 * elements(head)? + 1,
            b'$' | b'=' | b'!' if head != b"-1" => {
                let length = usize::try_from(number(head)?).map_err(|_| NotResp)?;
                end += length + 2;
            }
            _ => (),
        }
    }
    Ok((buffer.len() >= end).then_some(end))
}

/// The position after the first CRLF.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let cr = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some(cr + 2)
}

/// Null arrays (`*-1`) have none.
fn elements(head: &[u8]) -> Result<u64, NotResp> {
    match number(head)? {
        -1 => Ok(0),
        count => u64::try_from(count).map_err(|_| NotResp),
    }
}

/// At most a 32-bit length: Redis's own limits are lower.
fn number(head: &[u8]) -> Result<i64, NotResp> {
    let text = std::str::from_utf8(head).map_err(|_| NotResp)?;
    text.parse::<i32>().map(i64::from).map_err(|_| NotResp)
}

#[cfg(test)]
mod tests;
