//! The scripts of commit 274d16ac, put together from their parts as `scripts.txt` says, and the calls
//! that were recorded.

use std::collections::BTreeMap;
use std::fs;

const FOLDER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/link/redis/tests/wire/of_274d16ac"
);

/// Each script's text, by its name.
pub(super) fn texts() -> BTreeMap<String, String> {
    let read =
        |path: String| fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut several = BTreeMap::<String, String>::new();
    let mut texts = BTreeMap::new();
    for line in read(format!("{FOLDER}/scripts.txt")).lines() {
        let Some((name, parts)) = line.split_once(" = ") else {
            continue;
        };
        let part = |name: &str| match several.get(name) {
            Some(text) => text.clone(),
            None => read(format!("{FOLDER}/lua/{name}.lua")),
        };
        let text: String = parts.split(' ').map(part).collect();
        let of = if name.starts_with(char::is_uppercase) {
            &mut several
        } else {
            &mut texts
        };
        of.insert(name.to_owned(), text);
    }
    texts
}

/// The words of a recorded command, `name key … / argument …`; a command of the server stands as it
/// is sent.
pub(super) fn call(texts: &BTreeMap<String, String>, sent: &str) -> Vec<String> {
    let (keys, arguments) = sent.split_once(" / ").unwrap_or((sent, ""));
    let mut keys: Vec<_> = keys.split(' ').map(str::to_owned).collect();
    let Some(text) = texts.get(&keys[0]) else {
        return keys;
    };
    let number = (keys.len() - 1).to_string();
    keys.splice(..1, ["EVAL".to_owned(), text.clone(), number]);
    let arguments = arguments.split(' ').filter(|it| !it.is_empty());
    keys.extend(arguments.map(|it| if it == "''" { "" } else { it }.to_owned()));
    keys
}
