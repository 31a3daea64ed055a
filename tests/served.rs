//! Servers as the pages say to set them up: with the documented user, and with TLS.

use dlock_harness::{Authority, RedisServer};

const PAGE: &str = include_str!("../docs/operate/server.md");
const SENTINELS: &str = include_str!("../docs/operate/configuration.md");

/// The rights to a server's own compare-and-delete; older servers have neither, and refuse them.
const NATIVE: [&str; 2] = ["+delex", "+delifeq"];

/// The rules of the user at the sentinels, from the page that has it.
#[must_use]
pub fn documented_sentinel_rules() -> Vec<&'static str> {
    rules(SENTINELS, "ACL SETUSER dlock on >… ")
}

/// Makes the user `dlock` with the password `secret` at a sentinel.
pub async fn documented_sentinel_user(sentinel: &RedisServer) {
    let reset = ["ACL", "SETUSER", "dlock", "reset", "on", ">secret"];
    let rules = documented_sentinel_rules();
    sentinel.cmd(&[&reset[..], &rules].concat()).await;
}

/// The rules of a line of the page that sets up the user `dlock`, from the word after `begin`.
///
/// # Panics
/// If the page has no such line.
#[must_use]
pub fn documented_rules(begin: &str) -> Vec<&'static str> {
    rules(PAGE, begin)
}

fn rules(page: &'static str, begin: &str) -> Vec<&'static str> {
    let line = page.lines().find_map(|line| line.strip_prefix(begin));
    line.unwrap_or_else(|| panic!("no line begins with {begin:?}"))
        .split(' ')
        .collect()
}

/// Makes the user `dlock` with the password `secret`, the rights that the page lists for locks and
/// guarded writes, and these further rules; also the right to the server's own compare-and-delete,
/// if it has one.
pub async fn documented_user(server: &RedisServer, more: &[&str]) {
    let locks = documented_rules("ACL SETUSER dlock on >… ");
    let writes = documented_rules("ACL SETUSER dlock ~*{item:* ");
    for rules in [&["reset", "on", ">secret"], &*locks, &*writes, more] {
        server
            .cmd(&[&["ACL", "SETUSER", "dlock"], rules].concat())
            .await;
    }
    for right in NATIVE {
        let _ = server.try_cmd(&["ACL", "SETUSER", "dlock", right]).await;
    }
}

/// Makes the user `plain` with the password `secret` and the rights that the page lists for pools
/// without scripts; also the right to the server's own compare-and-delete, if it has one.
pub async fn documented_plain_user(server: &RedisServer) {
    let reset = ["ACL", "SETUSER", "plain", "reset", "on", ">secret"];
    let rules = documented_rules("ACL SETUSER plain on >… ");
    server.cmd(&[&reset[..], &rules].concat()).await;
    for right in NATIVE {
        let _ = server.try_cmd(&["ACL", "SETUSER", "plain", right]).await;
    }
}

/// A server that listens with TLS, and the authority of its certificate.
pub fn with_tls() -> (RedisServer, Authority) {
    let authority = Authority::new();
    let identity = authority.issue("server", &["127.0.0.1", "localhost"]);
    let server = RedisServer::builder().tls(&authority, &identity, false);
    (server.start(), authority)
}
