//! What a stranger may send, a function for each. The fuzz targets in `tests/fuzz` call them with any
//! bytes, and the unit tests with the inputs of its corpora. A function panics if a promise is broken:
//! reading panics at nothing, nothing is believed without proof, and every error is fit to be printed.
//!
//! Never in this file: a rule of its own. It is compiled for fuzzing and for tests only.
#![expect(clippy::expect_used, reason = "it panics on purpose")]

use std::fmt::{Debug, Display};
use std::sync::{Arc, Weak};

use redis::{PushInfo, PushKind, Value};

use crate::link::Listener;
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::redis::grant_key::GrantKey;
use crate::link::redis::push::{Grants, PushReceiver};
use crate::link::redis::reply;
use crate::rules::commands::PushedGrant;
use crate::values::config::{Address, Config, Secret};
use crate::values::entry::{self, There};
use crate::values::holder;
use crate::values::moment::Moment;
use crate::values::token::TokenSource;
use crate::values::ttl::Margin;

/// A channel of this connection.
const CHANNEL: &str = "lock:@grant:1";

/// The name of a fuzz target, and what it calls.
#[cfg(test)]
type FuzzTarget = (&'static str, fn(&[u8]));

#[cfg(test)]
const TARGETS: [FuzzTarget; 6] = [
    ("entry", entry),
    ("token", token),
    ("reply", reply),
    ("push", push),
    ("address", address),
    ("environment", environment),
];

/// What is stored at a lock's key, or in its queue.
pub fn entry(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let retired = entry::retired(text);
    let _ = (entry::reader_form(text), There::read(text));
    let _ = (entry::epoch_of_meta(text), holder::read(text));
    if let Some(read) = entry::read(text) {
        assert_eq!(entry::letter_of(text), Some(read.letter));
        assert!(!entry::is_other_layout(text) && !read.lease.is_zero());
        assert!(read.take >= 1 || !read.letter.is_shared());
        assert!(entry::is_retired(&retired) && entry::read(&retired).is_some());
    }
}

/// The token in a value that is stored or pushed.
pub fn token(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let source = TokenSource::new().expect("the system's random numbers");
    let drawn = source.draw();
    for read in [source.recognize(text), source.recognize_in(text)] {
        // Of 2^64 pools this is a new one, so that no input can name its token.
        assert_eq!(read, None);
    }
    assert_eq!(source.recognize(&drawn.to_wire()), Some(drawn));
}

/// A server's reply, in the wire's own form, to any command.
pub fn reply(bytes: &[u8]) {
    let Ok(value) = redis::parse_redis_value(bytes) else {
        return;
    };
    for error in errors_of(&value).into_iter().flatten() {
        is_fit(&error);
    }
}

fn errors_of(value: &Value) -> Vec<Option<CommandError>> {
    let asked = 2;
    let (replies, of_node) = (
        reply::combined::combined(value.clone(), 1, asked),
        reply::node::of_node(value.clone(), asked),
    );
    let each = of_node.as_ref().ok().into_iter().flatten().flatten();
    let of_each = each.flat_map(|it| {
        let (vote, adopted) = (it.vote(7).err(), it.adopted().err());
        [vote, adopted, it.taken_back(7).err(), it.downgraded().err()]
    });
    let mut errors: Vec<_> = of_each.collect();
    errors.extend([
        reply::acquired(value).err(),
        reply::acquired_all(value, asked).err(),
        reply::polled(value).err(),
        reply::cancelled(value).err(),
        reply::renewed(value, asked).err(),
        reply::given_back(value).err(),
        reply::downgraded(value).err(),
        reply::holders(value).err(),
        reply::value(value).err(),
        reply::time(value).err(),
        reply::heartbeat::heartbeat(value, &[1, asked]).err(),
        replies.err(),
        of_node.err(),
    ]);
    errors
}

/// A message on the channel of a connection whose fleet has a secret.
pub fn push(bytes: &[u8]) {
    let key = GrantKey::new(Some(&Secret::new("of the fleet, and long".to_owned())));
    let listener: Arc<dyn Listener> = Arc::new(Believer);
    let receiver = PushReceiver::new(
        Clock::real(),
        Margin::DEFAULT,
        vec![CHANNEL.to_owned()],
        key,
        Some(Arc::downgrade(&listener) as Weak<dyn Listener>),
        Grants::Count,
    );
    let data = [CHANNEL.as_bytes(), bytes].map(|it| Value::BulkString(it.to_vec()));
    receiver.hear(&PushInfo {
        kind: PushKind::Message,
        data: data.to_vec(),
    });
}

/// Who knows no secret must not be believed.
#[derive(Debug)]
struct Believer;

impl Listener for Believer {
    fn granted(&self, grant: PushedGrant, _: Option<Moment>) {
        panic!("a forgery is believed: {}", grant.key);
    }

    fn hinted(&self, _: &Arc<str>, _: &str) {}

    fn freed(&self, _: &Arc<str>) {}

    fn evicted(&self, key: &str, _: &str, is_proved: bool) {
        assert!(!is_proved, "a forgery is believed: {key}");
    }

    fn disconnected(&self) {}
}

/// The address of a server.
pub fn address(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    match Address::parse(text) {
        Ok(address) => is_fit(&address),
        Err(why) => is_fit(&why),
    }
}

/// The environment: a variable in each line, `NAME=value`.
pub fn environment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let variables = text.lines().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    match Config::from_variables(variables) {
        Ok(config) => drop(config),
        Err(error) => is_fit(&error),
    }
}

/// It can be printed as one line, and nothing in it is invisible.
fn is_fit(text: &(impl Display + Debug)) {
    for text in [text.to_string(), format!("{text:?}")] {
        let hidden = text
            .chars()
            .find(|it| !dlock_grammar::visible::is_visible(*it));
        assert_eq!(hidden, None, "{text:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The inputs that fuzzing has found, and those it began with.
    #[test]
    fn the_corpora_of_the_fuzz_targets_break_no_promise() {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus");
        for (name, run) in super::TARGETS {
            let inputs = fs::read_dir(corpora.join(name)).expect("a corpus");
            let inputs: Vec<_> = inputs.map(|it| it.expect("a file").path()).collect();
            assert!(inputs.len() > 2, "{name}");
            for input in inputs {
                println!("{}", input.display());
                run(&fs::read(&input).expect("an input"));
            }
        }
    }
}
