//! A shop as the command sees it: processes of the test's own program that hold and wait for locks,
//! under neutral names of hosts, for the pictures of the page.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dlock_harness::until_blocking;
use dlock_runtime::{Config, LockPool, Wait};

use crate::lab::{CAP, Lab, block};
use crate::look::json;

/// Who asks for a lock: host, function, key, and `exclusive`, `read`, `write` or `permit`; then how
/// long the scene goes on before the next one asks, in seconds of a picture. Each comes after the one
/// above, so the queues are in this order.
const ACTORS: [(&str, &str, &str, &str, u64); 12] = [
    ("job-1", "report::nightly", "nightly", "exclusive", 9),
    ("web-3", "catalogue::show", "catalogue", "read", 6),
    ("web-1", "catalogue::show", "catalogue", "read", 4),
    ("mail-1", "mail::send", "smtp", "permit", 2),
    ("mail-2", "mail::send", "smtp", "permit", 5),
    ("web-2", "checkout::buy", "item:7", "exclusive", 3),
    ("job-2", "import::prices", "catalogue", "write", 2),
    ("web-1", "checkout::buy", "item:7", "exclusive", 2),
    ("web-3", "checkout::buy", "item:7", "exclusive", 1),
    ("web-2", "catalogue::show", "catalogue", "read", 1),
    ("job-2", "stock::refill", "item:7", "exclusive", 1),
    ("web-3", "checkout::buy", "item:9", "exclusive", 1),
];

/// What a process of the scene is told: the fields of its actor, and the server's address.
const ACTOR: &str = "DLOCK_SCENE_ACTOR";

/// The processes of a scene. Dropped, they are ended.
pub(crate) struct Scene(Vec<Child>);

impl Scene {
    /// Returns when all hold or wait. `with_ages`: lets time pass between them.
    pub(crate) fn play(lab: &Lab, with_ages: bool) -> Self {
        let mut scene = Self(Vec::new());
        for (at, (host, function, key, kind, pause)) in ACTORS.iter().enumerate() {
            let told = [*host, *function, *key, *kind, &lab.url].join(" ");
            scene.0.push(start(&told));
            let before = ACTORS.iter().take(at + 1).filter(|it| it.2 == *key);
            let (key, wanted) = (*key, before.count() as u64);
            let what = format!("{wanted} at {key}");
            until_blocking(&what, CAP, || {
                let lock = json(lab, &["show", key, "--json"]);
                let count = |name| lock[name].as_u64().unwrap();
                count("holder_count") + count("waiter_count") == wanted
            });
            if with_ages {
                // Nothing is waited for: a picture in which all began at once would show no ages.
                std::thread::sleep(Duration::from_secs(*pause));
            }
        }
        scene
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for actor in &mut self.0 {
            let _ = (actor.kill(), actor.wait());
        }
    }
}

fn start(told: &str) -> Child {
    let mut actor = Command::new(std::env::current_exe().unwrap());
    actor.args(["--exact", "scene::actor", "--ignored"]);
    actor.env(ACTOR, told).stdin(Stdio::piped());
    let actor = actor.stdout(Stdio::null()).stderr(Stdio::null());
    actor.spawn().unwrap()
}

/// A process of a scene: asks for its lock, and keeps it until the test has gone.
#[test]
#[ignore = "a process of a scene, which `Scene::play` starts"]
fn actor() {
    let Ok(told) = std::env::var(ACTOR) else {
        return;
    };
    let words: Vec<&str> = told.split(' ').collect();
    let [host, function, key, kind, url] = words[..] else {
        panic!("{told}");
    };
    let function: &'static str = function.to_owned().leak();
    let config = Config::new(url).holder_name(host);
    block(async {
        let pool = LockPool::connect(config).await.unwrap();
        let request = pool.lock(key).function(function).renew();
        let request = match kind {
            "read" => request.read(),
            "write" => request.write(),
            "permit" => request.permits(3),
            _ => request,
        };
        let hold = async {
            let _held = request.wait(Wait::Forever).acquire().await.unwrap();
            std::future::pending::<()>().await;
        };
        let parent = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        tokio::select! {
            () = hold => {}
            _ = parent => {}
        }
    });
}
