//! Asks the other addresses of a server's name which server is there: this pool stays with the first
//! that answered, but another program may stay with another one, and then both hold one lock. It
//! changes no connection. Invariant: an address that does not answer delays a check by no more than
//! [`PATIENCE`], and is taken for no server.

use std::net::SocketAddr;
use std::time::Duration;

use redis::{AsyncConnectionConfig, ProtocolVersion};
use tokio::time::{Instant, timeout_at};

use super::client;
use super::dial;
use super::link::connection::Connection;
use super::reply_bound::{Question, ReplyBound};
use super::server_info;
use crate::link::joined;
use crate::observe;
use crate::values::config::{Endpoint, Host, RedisAddress};

const PATIENCE: Duration = Duration::from_secs(1);

/// Notes and logs that the name leads to another server, too, if one of its addresses does. Nothing
/// is asked of what sentinels or a cluster name, or of a server that does not say its run id.
pub(super) async fn look(connection: &Connection, within: Duration) {
    let Connection {
        address, target, ..
    } = connection;
    let (Endpoint::Tcp(host), None) = (&address.endpoint, &address.connector) else {
        return;
    };
    let Some(present) = target.landing() else {
        return;
    };
    let until = Instant::now() + within.min(PATIENCE);
    let Ok(Ok(mut others)) = timeout_at(until, dial::resolve(host)).await else {
        return;
    };
    others.retain(|it| it.to_string() != present.at);
    let asked = others.iter().map(|at| {
        let run_id = run_id_at(address, host, *at, until);
        Box::pin(async move { timeout_at(until, run_id).await.ok().flatten() })
    });
    let ids = joined::all(asked.collect()).await;
    let differs = |id: &Option<String>| id.as_ref().is_some_and(|id| **id != *present.run_id);
    let other = others.iter().zip(&ids).find(|(_, id)| differs(id));
    if let Some((other, _)) = other {
        let other = other.to_string();
        if target.leads_beside(&present, &other) {
            observe::several_servers(address, &present.at, &other);
        }
    }
}

/// The run id of the server there, if it says it.
async fn run_id_at(
    address: &RedisAddress,
    host: &Host,
    at: SocketAddr,
    until: Instant,
) -> Option<String> {
    let stream = dial::dial_at(address, host, at, until).await.ok()?;
    let credentials = client::credentials(&address.login).await.ok()?;
    let bound = ReplyBound::of(Question::Handshake);
    // The older protocol is understood by all.
    let (protocol, config) = (ProtocolVersion::RESP2, AsyncConnectionConfig::new());
    let logged_in = client::log_in(stream, 0, &credentials, protocol, config, &bound).await;
    let (mut connection, _io_task) = logged_in.ok()?;
    let mut question = redis::cmd("INFO");
    question.arg("server");
    let info: String = question.query_async(&mut connection).await.ok()?;
    server_info::run_id(&info)
}
