//! URLs: which are understood, which are refused and how, and that no error contains a secret.

use crate::values::config::{Address, Config, Credentials, Endpoint, Login, RedisAddress, Secret};

fn redis(url: &str) -> RedisAddress {
    match Address::parse(url) {
        Ok(Address::Redis(address)) => RedisAddress::clone(&address),
        other => panic!("{url}: {other:?}"),
    }
}

fn tcp(url: &str) -> (String, u16) {
    match redis(url).endpoint {
        Endpoint::Tcp(host) => (host.name, host.port),
        other => panic!("{url}: {other:?}"),
    }
}

fn socket(url: &str) -> String {
    match redis(url).endpoint {
        Endpoint::Unix(path) => path.display().to_string(),
        other => panic!("{url}: {other:?}"),
    }
}

fn who(url: &str) -> (Option<String>, Option<String>) {
    let Login::Fixed(Credentials { user, password }) = redis(url).login else {
        panic!("{url}: a URL's login is fixed");
    };
    (user, password.map(|secret| secret.reveal().to_owned()))
}

#[test]
fn hosts_and_ports() {
    for (url, host, port) in [
        ("redis://localhost", "localhost", 6379),
        ("redis://localhost:7000", "localhost", 7000),
        ("redis://10.0.0.1:1/", "10.0.0.1", 1),
        ("redis://[::1]", "::1", 6379),
        ("redis://[2001:db8::7]:7000/3", "2001:db8::7", 7000),
        (
            "redis://user:pass@cache.example.com:7000",
            "cache.example.com",
            7000,
        ),
    ] {
        assert_eq!(tcp(url), (host.to_owned(), port), "{url}");
    }
}

#[test]
fn credentials_are_decoded() {
    for (url, user, password) in [
        ("redis://h", None, None),
        ("redis://:secret@h", None, Some("secret")),
        ("redis://ann:secret@h", Some("ann"), Some("secret")),
        ("redis://ann@h", Some("ann"), None),
        (
            "redis://a%40b:p%40%3A%2F%23%25ss@h",
            Some("a@b"),
            Some("p@:/#%ss"),
        ),
        ("redis://:p%C3%A4ss@h", None, Some("päss")),
        (
            "redis+unix:///s?user=ann&pass=p%26ss",
            Some("ann"),
            Some("p&ss"),
        ),
        ("redis+unix:///s?pass=secret", None, Some("secret")),
    ] {
        let expected = (user.map(str::to_owned), password.map(str::to_owned));
        assert_eq!(who(url), expected, "{url}");
    }
}

#[test]
fn databases_and_protocols() {
    for (url, database, resp2) in [
        ("redis://h", 0, false),
        ("redis://h/", 0, false),
        ("redis://h/3", 3, false),
        ("redis://h/3?protocol=resp2", 3, true),
        ("redis://h?protocol=2", 0, true),
        ("redis://h?protocol=resp3", 0, false),
        ("redis+unix:///s?db=4&protocol=resp2", 4, true),
    ] {
        let address = redis(url);
        assert_eq!(
            (address.database, address.resp2_only),
            (database, resp2),
            "{url}"
        );
    }
}

#[test]
fn a_valkey_is_named_as_such_too() {
    for (theirs, ours) in [
        (
            "valkey://ann:x@h/3?protocol=resp2",
            "redis://ann:x@h/3?protocol=resp2",
        ),
        (
            "valkey+unix:///s?db=1&pass=x",
            "redis+unix:///s?db=1&pass=x",
        ),
    ] {
        let [theirs, ours] =
            [theirs, ours].map(|url| format!("{:?}", Address::parse(url).unwrap()));
        assert_eq!(theirs, ours);
    }
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_a_scheme_with_options() {
    use std::path::Path;

    use crate::values::config::Tls;

    let tls = |url| redis(url).tls;
    assert_eq!(tls("redis://h"), None);
    assert_eq!(tls("rediss://h"), Some(Tls::default()));
    let all =
        "rediss://ann:x@h:7/3?tls_ca=/a%20b.pem&tls_cert=c&tls_key=k&tls_server_name=n&protocol=2";
    let address = redis(all);
    assert_eq!((address.database, address.resp2_only), (3, true));
    let tls = address.tls.unwrap();
    assert_eq!(tls.ca.as_deref(), Some(Path::new("/a b.pem")));
    assert_eq!(tls.identity(), Some((Path::new("c"), Path::new("k"))));
    assert_eq!(tls.server_name.as_deref(), Some("n"));
    let [theirs, ours] =
        ["valkeys", "rediss"].map(|it| format!("{:?}", redis(&format!("{it}://h?tls_ca=a"))));
    assert_eq!(theirs, ours);
    for (url, says) in [
        ("rediss://host?tls_ca=", "`tls_ca` is empty; give a value"),
        (
            "rediss://host?tls_server_name=",
            "`tls_server_name` is empty",
        ),
        (
            "rediss://host?ca=a.pem",
            "this URL knows `protocol`, `tls_ca`",
        ),
        (
            "rediss://host?insecure=true",
            "`insecure` is refused: without a check",
        ),
        (
            "rediss://host#insecure",
            "give the CA that signed it as `tls_ca`",
        ),
        ("rediss://", "url: "),
        ("rediss://a,b", "several hosts are for sentinels, a cluster"),
    ] {
        let said = Address::parse(url).unwrap_err();
        assert!(said.contains(says), "{url}: {said}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_needs_its_feature() {
    for url in ["rediss://h", "valkeys://h"] {
        let said = Address::parse(url).unwrap_err();
        assert!(
            said.contains("needs the feature `tls` of dlock-runtime"),
            "{said}"
        );
    }
}

#[test]
fn sentinels_have_a_name_for_the_master_and_a_login_of_their_own() {
    let url = "redis+sentinel://ann:x@s1,[::1]:7000,10.0.0.1/the%20locks/2?sentinel_user=u&sentinel_pass=p%26";
    let address = redis(url);
    let Endpoint::Sentinels(sentinels) = &address.endpoint else {
        panic!("{address:?}");
    };
    let hosts = sentinels.hosts.iter().map(ToString::to_string);
    let hosts: Vec<_> = hosts.collect();
    assert_eq!(hosts, ["s1:26379", "[::1]:7000", "10.0.0.1:26379"]);
    assert_eq!(sentinels.master, "the locks");
    assert_eq!(sentinels.login.user.as_deref(), Some("u"));
    let password = sentinels.login.password.as_ref();
    assert_eq!(password.map(Secret::reveal), Some("p&"));
    assert_eq!(who(url), (Some("ann".to_owned()), Some("x".to_owned())));
    assert_eq!(address.database, 2);
    assert_eq!(
        address.to_string(),
        "redis+sentinel://s1:26379,[::1]:7000,10.0.0.1:26379/the locks/2"
    );
    assert_eq!(redis("valkey+sentinel://a/m").database, 0);
}

#[test]
fn sockets() {
    assert_eq!(socket("redis+unix:///run/redis.sock"), "/run/redis.sock");
    assert_eq!(
        socket("redis+unix:///with%20space/redis.sock?db=1"),
        "/with space/redis.sock"
    );
    assert!(matches!(Address::parse("memory://"), Ok(Address::Memory)));
}

#[test]
fn what_can_t_work_is_refused_with_what_to_write() {
    for (url, says) in [
        ("", "no scheme; give `redis://host:6379`"),
        ("localhost:6379", "no scheme"),
        ("http://host", "unknown scheme; give"),
        ("Redis://host", "unknown scheme"),
        ("memory://x", "takes nothing after it"),
        ("redis://host?tls_ca=a.pem", "write `rediss` in place"),
        ("redis://host?insecure", "`insecure` is refused"),
        ("redis://host#insecure", "`insecure` is refused"),
        ("valkey+unix://run/s", "no path of a socket"),
        ("redis+sentinel://host", "no name of a master; give"),
        ("redis+sentinel://a,b/", "no name of a master"),
        ("redis+sentinel:///name", "a sentinel without a name"),
        ("redis+sentinel://a,,b/name", "a sentinel without a name"),
        (
            "redis+sentinel://a,a:26379/name",
            "a sentinel is named twice",
        ),
        ("redis+sentinel://a,b:x/name", "invalid port"),
        ("redis+sentinel://a/name/one", "the database is no number"),
        ("redis+sentinel://a/name/1/2", "the database is no number"),
        (
            "redis+sentinel://a/name?tls_ca=x",
            "write `rediss` in place of `redis`",
        ),
        (
            "redis+sentinel://a/name?user=x",
            "`sentinel_user`, `sentinel_pass`",
        ),
        ("redis+sentinel://a/name?insecure", "`insecure` is refused"),
        (
            "redis+sentinel://u:p/x@a/name",
            "a password that is not escaped",
        ),
        ("redis-sentinel://a/name", "write `redis+sentinel://`"),
        ("redis-cluster://host", "write `redis+cluster://`"),
        ("redis+cluster://", "a node without a name"),
        ("redis+cluster://a,", "a node without a name"),
        ("redis+cluster://a:0", "port 0"),
        ("redis+cluster://a,a:6379", "named twice"),
        ("redis+cluster://a,redis://b", "without a scheme"),
        ("redis+cluster://a,b/1", "the database 0 only"),
        ("redis+cluster://a/name", "the database is no number"),
        (
            "redis+cluster://a?tls_ca=x",
            "write `rediss` in place of `redis`",
        ),
        (
            "redis://a:6379,b:6379",
            "several hosts are for sentinels, a cluster",
        ),
        ("redis://a,b:6379", "several hosts are for sentinels"),
        ("redis://", "url: "),
        ("redis:///0", "url: "),
        ("redis://host:port", "url: invalid port"),
        ("redis://host:70000", "url: invalid port"),
        ("redis://[::1", "url: "),
        ("redis://host/one", "the database is no number"),
        ("redis://host/-1", "the database is no number"),
        ("redis://host/0/1", "the database is no number"),
        ("redis://host?db=1", "unknown option"),
        ("redis://host?protocol=4", "resp2 or resp3"),
        ("redis://host#0", "percent-encode it as %23"),
        (
            "redis://user:12/word@host",
            "a password that is not escaped",
        ),
        ("redis://user:p@ss/word@host", "`/` as %2F"),
        (
            "redis://user:p@ss/1@host/0",
            "a password that is not escaped",
        ),
        ("redis://:p@12?word@host", "a password that is not escaped"),
        ("redis://:p@12#word@host", "a password that is not escaped"),
        (
            "redis://user:pass/word@host",
            "percent-encode special characters",
        ),
        ("redis://:%FF@host", "the password is not valid UTF-8"),
        ("redis+unix://run/redis.sock", "no path of a socket"),
        ("redis+unix:///", "no path of a socket"),
        ("redis+unix:///s?dbb=1", "unknown option"),
    ] {
        refused(url, says);
    }
}

#[test]
fn nodes_that_can_t_work_are_refused_with_what_to_write() {
    for (url, says) in [
        ("redlock://a,b", "2 nodes survive no more failures than 1"),
        (
            "redlock://a,b,c,d",
            "4 nodes survive no more failures than 3",
        ),
        (
            "redlock://a",
            "one node survives no failure; give `redis://`",
        ),
        ("redlock://", "no node; give `redlock://"),
        (
            "redlock://a,b,c,d,e,f,g,h,i,j,k",
            "11 nodes are more than 9",
        ),
        ("redlock://a,b,b", "a node is named twice"),
        ("redlock://a,b,", "a node without a name"),
        ("redlock://a, b, c", "a space in the list of hosts"),
        ("redlock://a;b;c", "separate them by commas"),
        ("redlock://u:p@a,u:p@b,u:p@c", "the login is given once"),
        ("redlock://a/1,b/1,c/1", "given once, behind the last one"),
        (
            "redlock://a,redis://b,redis://c",
            "without a scheme; give `redlock://",
        ),
    ] {
        refused(url, says);
    }
}

fn refused(url: &str, says: &str) {
    match Address::parse(url) {
        Err(said) => assert!(
            said.contains(says) && said.starts_with("url: "),
            "{url}: {said}"
        ),
        Ok(address) => panic!("{url}: {address}"),
    }
}

/// A password that was not percent-encoded makes the URL fall apart in surprising places.
#[test]
fn no_part_of_a_password_is_in_an_error() {
    for url in [
        "redis://:canary",
        "redis://:can/ary@host",
        "redis://:12/canary@host",
        "redis://:12?canary@host",
        "redis://:12?canary=1@host",
        "redis://user:12?canary@host",
        "redis://user:12?canary=1@host",
        "redis://user:12#canary@host",
        "redis://us er:canary@host:port",
        "redis://:canary@[host",
        "redis://:canary@host:99999",
        "redis://:canary@host/x",
        "redis://:canary@host?password=canary",
        "redis+unix:///s?pass=12&canary",
        "redis+unix:///s?pass=12&canary=3",
        "redis+unix:///s?pass=12#canary",
        "redis+unix://:canary@host/s",
        "canary@host",
        "canary://host",
        "redis:/canary@host",
        "redis+sentinel://:canary@a,b/name",
        "redis+sentinel://:can/ary@a,b/name",
        "redis+sentinel://:12/canary@a,b/name",
        "redis+sentinel://:12?canary@a,b/name",
        "redis+sentinel://:12#canary@a,b/name",
        "redis+sentinel://:canary@a,b:port/name",
        "redis+sentinel://a,b/name?sentinel_pass=canary",
        "redis+sentinel://a,b/name?sentinel_user=canary&sentinel_pass=12#canary",
        "rediss://:12?canary=1@host",
        "rediss://user:12#canary@host",
        "rediss://:canary@host?password=canary",
        "rediss://:canary@host?insecure",
    ] {
        match Address::parse(url) {
            Err(said) => assert!(!said.contains("canary"), "{url}: {said}"),
            Ok(address) => {
                let shown = format!("{address} {address:?}");
                assert!(!shown.contains("canary"), "{url}: {shown}");
            }
        }
        let shown = format!("{:?}", Config::new(url));
        assert!(!shown.contains("canary"), "{url}: {shown}");
    }
}

#[test]
fn an_address_is_shown_without_its_credentials() {
    for (url, shown) in [
        ("redis://ann:canary@h:7000/3", "redis://h:7000/3"),
        ("redis://:canary@[::1]/", "redis://[::1]:6379/0"),
        (
            "redis+unix:///s?db=4&pass=canary&user=ann",
            "redis+unix:///s?db=4",
        ),
        ("memory://", "memory://"),
    ] {
        let address = Address::parse(url).unwrap();
        assert_eq!(address.to_string(), shown);
        assert!(!format!("{address:?}").contains("canary"));
        assert!(format!("{:?}", Config::new(url)).contains(shown));
    }
}

#[cfg(feature = "postgres")]
mod of_postgres {
    use super::*;
    use crate::values::config::PostgresAddress;

    fn postgres(url: &str) -> PostgresAddress {
        match Address::parse(url) {
            Ok(Address::Postgres(address)) => PostgresAddress::clone(&address),
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn what_a_url_says_and_shows() {
        for (url, shown, encrypts) in [
            (
                "postgres://ann@localhost",
                "postgres://localhost:5432/",
                false,
            ),
            (
                "postgresql://ann:s%2F@127.0.0.1:1/db",
                "postgres://127.0.0.1:1/db",
                false,
            ),
            (
                "postgres://ann@[::1]/db?schema=shop_2",
                "postgres://[::1]:5432/db?schema=shop_2",
                false,
            ),
            (
                "postgres://ann@/db?host=/run/postgresql",
                "postgres:///db?host=/run/postgresql/.s.PGSQL.5432",
                false,
            ),
            (
                "postgres://ann@:54/db?host=/s&schema=x",
                "postgres:///db?host=/s/.s.PGSQL.54&schema=x",
                false,
            ),
            (
                "postgres://ann@h/db?sslmode=disable&pooler=transaction",
                "postgres://h:5432/db",
                false,
            ),
            #[cfg(feature = "tls")]
            (
                "postgres://ann@h1:1,h2/db?sslrootcert=/ca.pem&target_session_attrs=read-write",
                "postgres://h1:1,h2:5432/db",
                true,
            ),
            #[cfg(feature = "tls")]
            (
                "postgres://ann@localhost/db?sslmode=verify-full",
                "postgres://localhost:5432/db",
                true,
            ),
            #[cfg(feature = "tls")]
            (
                "postgres://ann@127.0.0.1,h2/db",
                "postgres://127.0.0.1:5432,h2:5432/db",
                true,
            ),
        ] {
            let address = postgres(url);
            let said = (address.to_string(), address.tls.is_some());
            assert_eq!(said, (shown.to_owned(), encrypts), "{url}");
        }
        let all =
            postgres("postgres://ann:x@localhost/db?synchronous_commit=off&pooler=transaction");
        assert_eq!((all.synchronous_commit, all.is_pooled), (Some("off"), true));
    }

    #[test]
    fn what_is_refused_says_why_and_no_password() {
        for (rest, part) in [
            ("", "no host"),
            ("h/db?sslmode=prefer", "turn the encryption off"),
            ("h/db?sslmode=allow", "turn the encryption off"),
            ("h/db?sslmode=require", "verify-full"),
            ("h/db?sslmode=verify-ca", "tls_server_name"),
            ("h/db?sslmode=wide", "`verify-full` or `disable`"),
            ("h/db?sslmod=disable", "`sslmode`, `sslrootcert`"),
            ("h/db?options=-c", "`postgres://` knows"),
            ("h/db?host=other", "a socket's directory"),
            ("h/db?host=/run", "one of the two"),
            (":x/db?host=/run", "port"),
            ("h/a/b", "name of the database"),
            ("h:0/db", "port 0"),
            ("h,h/db", "named twice"),
            ("localhost/db?sslrootcert=/ca", "not encrypted"),
            ("h/db?schema=a\"b", "lower-case"),
            ("h/db?schema=1a", "lower-case"),
            ("h/db?schema=", "lower-case"),
            ("h/db?synchronous_commit=maybe", "remote_apply"),
            ("h/db?pooler=session", "`transaction`"),
            ("h/db?target_session_attrs=any", "`read-write`"),
            ("h/db#x", "fragment"),
        ] {
            let url = format!("postgres://ann:s3cret@{rest}");
            let why = Address::parse(&url).unwrap_err();
            assert!(why.contains(part), "{url}: {why}");
            assert!(!why.contains("s3cret"), "{why}");
        }
        let why = Address::parse("postgres://ann:s3c/r@h/db").unwrap_err();
        assert!(
            why.contains("percent-encode") && !why.contains("s3c"),
            "{why}"
        );
        let why = Config::new("postgres://localhost/db").check().unwrap_err();
        assert!(why.to_string().contains("no user"), "{why}");
    }
}

#[cfg(not(feature = "postgres"))]
#[test]
fn postgres_is_a_feature() {
    for url in ["postgres://ann:s3cret@h/db", "postgresql://h"] {
        let why = Address::parse(url).unwrap_err();
        assert!(
            why.contains("the feature `postgres`") && !why.contains("s3cret"),
            "{why}"
        );
    }
}
