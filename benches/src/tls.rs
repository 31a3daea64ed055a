//! TLS: W1 and W2 over TLS, beside the same without it at the same server, and the time of one
//! connect. All sockets have `TCP_NODELAY`, and the client is rustls with ring.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::Failure;
use crate::chapter::{Chapter, Panel, Series, spread};
use crate::contenders::ours::{self, Confirmed};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Contender, TTL};
use crate::cycles::{self, Field};
use crate::lab::{Lab, connect_far, connect_over};
use crate::progress::Progress;
use crate::rounds::order;
use crate::statistics::Quartiles;

/// Each with TLS comes after the same without it.
const NAMES: [&str; 4] = ["raw", "raw over TLS", "dlock", "dlock over TLS"];

const CONNECTS: usize = 20;

pub(crate) async fn chapters(lab: &Lab) -> Result<Vec<Chapter>, Failure> {
    Ok(vec![locks(lab).await?, connects(lab).await?])
}

/// Checked before anything is measured: a redis-server that was built without TLS does not know
/// the option, one that was built with it wants a number there.
pub(crate) fn is_offered() -> Result<(), Failure> {
    let asked = ["--tls-port", "none"];
    let said = Command::new("redis-server").args(asked).output()?;
    let said = [said.stdout, said.stderr].concat();
    if String::from_utf8_lossy(&said).contains("Bad directive") {
        return Err("this redis-server was built without TLS (make BUILD_TLS=yes)".into());
    }
    Ok(())
}

async fn locks(lab: &Lab) -> Result<Chapter, Failure> {
    let [near, over] = urls(lab)?;
    let raw = async |connection| Raw::on(connection, TTL).await;
    let [plain, secure] = [
        raw(connect_far(&near).await?).await?,
        raw(connect_tls(lab).await?).await?,
    ];
    let ours = async |url| Ok::<_, Failure>(Confirmed(ours::pool(url).await?));
    let [own, own_secure] = [ours(&near).await?, ours(&over).await?];
    let [a, b, c, d] = NAMES;
    let field = Field {
        contenders: vec![
            Contender::new(a, raw::SENDS, plain),
            Contender::new(b, raw::SENDS, secure),
            Contender::new(c, ours::SENDS, own),
            Contender::new(d, ours::SENDS, own_secure),
        ],
        beside: (
            ["time / without TLS", "server CPU / without TLS"],
            |place| place - place % 2,
        ),
    };
    let title = "TLS: acquire and release, tasks with a key each";
    cycles::sizes(lab, &field, ["TLS", title], &[1, 16, 64, 256]).await
}

/// One connection after the other, each with a handshake of its own.
async fn connects(lab: &Lab) -> Result<Chapter, Failure> {
    let [near, over] = urls(lab)?;
    let mut progress = Progress::new("TLS, connects");
    let mut times = NAMES.map(|_| Vec::new());
    // Round 0 warms up.
    for round in 0..=CONNECTS {
        progress.tell(&format!("round {round} of {CONNECTS}"));
        for place in order(NAMES.len(), round) {
            let begun = Instant::now();
            let (time, pool) = match place {
                0 => (connect_far(&near).await.map(|_| begun.elapsed())?, None),
                1 => (connect_tls(lab).await.map(|_| begun.elapsed())?, None),
                _ => {
                    let pool = ours::pool(if place == 2 { &near } else { &over }).await?;
                    (begun.elapsed(), Some(pool))
                }
            };
            if let (Some(times), 1..) = (times.get_mut(place), round) {
                times.push(time.as_secs_f64() * 1e3);
            }
            if let Some(pool) = pool {
                pool.shutdown().await;
            }
        }
    }
    let figures = times.map(Quartiles::of);
    let rows = NAMES.iter().zip(figures);
    let rows = rows.map(|(name, figure)| vec![(*name).to_owned(), spread(figure, 2)]);
    Ok(Chapter {
        title: "TLS: one connect".to_owned(),
        notes: vec![format!(
            "{CONNECTS} connects each, in turn, until the connection, or dlock's pool, can be used. Each over TLS reads the CA's file and shakes hands in full."
        )],
        head: vec!["contender", "time of a connect, ms"],
        rows: rows.collect(),
        panels: vec![Panel {
            title: "TLS: time of a connect, ms".to_owned(),
            groups: vec!["one connect".to_owned()],
            series: NAMES
                .into_iter()
                .zip(figures)
                .map(|(name, figure)| Series {
                    name: name.to_owned(),
                    bars: vec![figure.map(|figure| figure.median)],
                })
                .collect(),
        }],
    })
}

/// Without TLS, and with it.
fn urls(lab: &Lab) -> Result<[String; 2], Failure> {
    let over = lab.tls_url().ok_or("the lab's server has no TLS")?;
    Ok([lab.url(), over])
}

/// As [`connect_far`], over TLS with dlock's own settings.
async fn connect_tls(lab: &Lab) -> Result<MultiplexedConnection, Failure> {
    let (addr, authority) = lab.tls().ok_or("the lab's server has no TLS")?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::new(config));
    connect_over(connector.connect(addr.ip().into(), stream).await?).await
}
