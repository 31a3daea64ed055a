//! The delay of each direction, its order, and the end of the proxy.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::DelayProxy;
use crate::wait::scaled;

const EACH_WAY: Duration = Duration::from_millis(100);

/// Both ends of a connection through a proxy.
fn connection() -> (DelayProxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = DelayProxy::start(listener.local_addr().unwrap(), EACH_WAY);
    let client = TcpStream::connect(proxy.addr()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        end.set_nodelay(true).unwrap();
        let cap = Some(scaled(Duration::from_secs(10)));
        end.set_read_timeout(cap).unwrap();
    }
    (proxy, client, server)
}

#[test]
fn each_way_takes_that_long() {
    let (_proxy, mut client, mut server) = connection();
    let begun = Instant::now();
    client.write_all(b"a").unwrap();
    server.read_exact(&mut [0]).unwrap();
    assert!(begun.elapsed() >= EACH_WAY);
    server.write_all(b"b").unwrap();
    client.read_exact(&mut [0]).unwrap();
    assert!(begun.elapsed() >= EACH_WAY * 2);
}

#[test]
fn what_comes_during_a_delay_is_delayed_no_longer_and_keeps_its_order() {
    let (_proxy, mut client, mut server) = connection();
    let begun = Instant::now();
    let sent: Vec<u8> = (0..=200).collect();
    let reader = thread::spawn(move || {
        let mut read = vec![0; 201];
        server.read_exact(&mut read).unwrap();
        read
    });
    for byte in &sent {
        client.write_all(&[*byte]).unwrap();
        thread::sleep(Duration::from_millis(1)); // so that each is a chunk of its own
    }
    assert_eq!(reader.join().unwrap(), sent);
    // One after the other they would take 201 delays.
    assert!(begun.elapsed() < EACH_WAY * 50, "{:?}", begun.elapsed());
}

#[test]
fn an_end_comes_behind_what_was_said_before_it() {
    let (_proxy, client, mut server) = connection();
    (&client).write_all(b"last").unwrap();
    drop(client);
    let mut heard = String::new();
    server.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "last");
}

#[test]
fn a_proxy_that_is_dropped_closes_its_connections_and_leaves_no_thread() {
    let (proxy, mut client, _server) = connection();
    let (sender, dropped) = mpsc::channel();
    thread::spawn(move || {
        drop(proxy); // joins its threads
        sender.send(()).unwrap();
    });
    let cap = scaled(Duration::from_secs(10));
    dropped.recv_timeout(cap).expect("its threads have ended");
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
}
