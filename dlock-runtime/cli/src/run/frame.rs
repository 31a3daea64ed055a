//! What `dlock run` and the process that watches the command tell each other, over a socket pair.
//!
//! Nine bytes each: a letter and a number. Invariant: what can't be read counts as the end of the
//! conversation, which ends the command.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::plan::Why;

/// The bytes of a frame.
const LENGTH: usize = 9;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// To the watcher: the lease lasts until then, in nanoseconds of [`clock`](super::clock).
    Deadline(u64),
    /// To the watcher: the lock is lost.
    Lost,
    /// To the watcher: send this signal to the command.
    Signal(i32),
    /// From the watcher: the command runs with this process id.
    Started(i32),
    /// From the watcher: it tells the command to end.
    Ending(Why),
    /// From the watcher: the command has ended with this exit status, and nothing of it is left.
    Ended(u8),
    /// From the watcher: the command could not be started, by this error number.
    Failed(i32),
}

impl Frame {
    pub(crate) fn encode(self) -> [u8; LENGTH] {
        let signed = |number: i32| u64::from(number.cast_unsigned());
        let (letter, number) = match self {
            Frame::Deadline(at) => (b'd', at),
            Frame::Lost => (b'l', 0),
            Frame::Signal(signal) => (b's', signed(signal)),
            Frame::Started(pid) => (b'p', signed(pid)),
            Frame::Ending(why) => (b'e', why as u64),
            Frame::Ended(status) => (b'x', u64::from(status)),
            Frame::Failed(errno) => (b'f', signed(errno)),
        };
        let mut bytes = [letter; LENGTH];
        bytes[1..].copy_from_slice(&number.to_le_bytes()); // 9 less 1 is 8
        bytes
    }

    pub(crate) fn decode(bytes: [u8; LENGTH]) -> Option<Self> {
        let [letter, number @ ..] = bytes;
        let number = u64::from_le_bytes(number);
        let signed = u32::try_from(number).map(u32::cast_signed).ok();
        Some(match letter {
            b'd' => Frame::Deadline(number),
            b'l' => Frame::Lost,
            b's' => Frame::Signal(signed?),
            b'p' => Frame::Started(signed?),
            b'e' => Frame::Ending(*WHYS.iter().find(|why| **why as u64 == number)?),
            b'x' => Frame::Ended(u8::try_from(number).ok()?),
            b'f' => Frame::Failed(signed?),
            _ => return None,
        })
    }
}

const WHYS: [Why; 4] = [Why::Deadline, Why::Lost, Why::Orphaned, Why::LeftBehind];

/// Sends the first frame together with the standard input that the command gets: the watcher's own
/// is the socket.
pub(crate) fn send_first(
    socket: &UnixStream,
    frame: Frame,
    stdin: BorrowedFd<'_>,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [stdin];
    control.push(SendAncillaryMessage::ScmRights(&fds)); // `space` is for one
    let bytes = frame.encode();
    sendmsg(
        socket,
        &[IoSlice::new(&bytes)],
        &mut control,
        SendFlags::empty(),
    )
    .map(drop)
}

/// Receives what [`send_first`] sent; `None` if that is not what came.
pub(crate) fn receive_first(socket: impl AsFd) -> Option<(Frame, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; LENGTH];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        flags,
    );
    if received.ok()?.bytes != LENGTH {
        return None;
    }
    let stdin = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Some((Frame::decode(bytes)?, stdin?))
}

/// One end of the conversation: for [`frames`], and for [`tell`].
pub(crate) fn split(socket: UnixStream) -> std::io::Result<(tokio::net::UnixStream, UnixStream)> {
    let writer = socket.try_clone()?;
    socket.set_nonblocking(true)?;
    Ok((tokio::net::UnixStream::from_std(socket)?, writer))
}

/// Sends a frame, if the other side is still there and listens: nothing may wait for it.
pub(crate) fn tell(socket: &UnixStream, frame: Frame) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = send(socket, &frame.encode(), flags);
}

/// The frames that arrive. The channel closes at the end of the conversation.
pub(crate) fn frames(mut socket: tokio::net::UnixStream) -> mpsc::UnboundedReceiver<Frame> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut bytes = [0; LENGTH];
        while socket.read_exact(&mut bytes).await.is_ok() {
            let Some(frame) = Frame::decode(bytes) else {
                break;
            };
            if sender.send(frame).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::{Frame, WHYS, receive_first, send_first};
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_frame_arrives_as_it_was_sent() {
        let mut frames = vec![
            Frame::Deadline(u64::MAX),
            Frame::Lost,
            Frame::Signal(15),
            Frame::Started(i32::MAX),
            Frame::Ended(255),
            Frame::Failed(2),
        ];
        frames.extend(WHYS.map(Frame::Ending));
        for frame in frames {
            assert_eq!(Frame::decode(frame.encode()), Some(frame));
        }
    }

    #[test]
    fn anything_else_is_no_frame() {
        for bytes in [*b"\0\0\0\0\0\0\0\0\0", *b"e\x09\0\0\0\0\0\0\0", [b'x'; 9]] {
            assert_eq!(Frame::decode(bytes), None);
        }
    }

    #[test]
    fn a_file_goes_with_the_first_frame() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut input, output) = std::io::pipe().unwrap();
        send_first(&ours, Frame::Deadline(7), input.as_fd()).unwrap();
        let (frame, stdin) = receive_first(&theirs).unwrap();
        assert_eq!(frame, Frame::Deadline(7));
        drop(output);
        let mut text = String::new();
        std::fs::File::from(stdin)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(input.read(&mut [0]).unwrap(), 0);

        drop(ours);
        assert!(receive_first(&theirs).is_none());
    }
}
