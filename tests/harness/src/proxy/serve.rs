//! The proxy's thread, and the life of one connection on it.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::link::{Held, Link};
use super::mode::{Shared, Way};
use super::pump::{self, End};

/// Serves until the proxy is dropped.
pub(super) fn run(listener: std::net::TcpListener, shared: &Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        tokio::select! {
            _ = shared.mode_where(|mode| mode.ended) => (),
            () = accept(listener, shared) => (),
        }
    });
}

async fn accept(listener: std::net::TcpListener, shared: &Arc<Shared>) {
    listener.set_nonblocking(true).expect("an own socket");
    let listener = TcpListener::from_std(listener).expect("an own socket");
    loop {
        let (client, _) = listener.accept().await.expect("accept");
        let number = shared.accept();
        if shared.mode.borrow().refuse {
            reset(client);
            continue;
        }
        let link = Link::open(Arc::clone(shared), number);
        tokio::spawn(serve(link, client));
    }
}

async fn serve(link: Link, mut client: TcpStream) {
    let connected = tokio::select! {
        biased;
        () = link.cut() => return reset(client),
        connected = connect(&link) => connected,
    };
    let Some(mut upstream) = connected else {
        return reset(client);
    };
    client.set_nodelay(true).expect("an own socket");
    upstream.set_nodelay(true).expect("an own socket");

    let (from_client, to_client) = client.split();
    let (from_upstream, to_upstream) = upstream.split();
    let end = tokio::select! {
        biased;
        () = link.cut() => End::Cut,
        end = pump::requests(&link, from_client, to_upstream) => end,
        end = pump::replies(&link, from_upstream, to_client) => end,
    };
    match end {
        End::Cut => reset(client),
        End::Upstream | End::Client => drop(client),
    }
    let held = link.take_held();
    let shared = Arc::clone(&link.shared);
    drop(link);
    finish(&shared, upstream, held).await;
}

/// `None` if nothing listens there, as soon as the wire may report that.
async fn connect(link: &Link) -> Option<TcpStream> {
    let connected = TcpStream::connect(link.shared.upstream).await;
    if connected.is_err() {
        link.may_end(Way::Replies).await;
    }
    connected.ok()
}

/// The server's side without a client: held requests come late, then an orderly end, so that
/// everything forwarded is executed.
async fn finish(shared: &Shared, mut upstream: TcpStream, held: Option<Held>) {
    if let Some(held) = held {
        shared.mode_where(|mode| mode.releases > held.since).await;
        let _ = upstream.write_all(&held.bytes).await;
    }
    let _ = upstream.shutdown().await;
    // A socket that is closed with unread bytes is reset, and the reset could overtake what was
    // sent.
    let mut buffer = [0; 4096];
    while upstream.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
}

/// Resets the connection: RST instead of FIN.
fn reset(socket: TcpStream) {
    // Fails on a socket that is closed already.
    let _ = socket.set_zero_linger();
    drop(socket);
}
