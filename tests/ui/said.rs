//! Rules for all messages about a mistake: at the token, once, with the fix, and about nothing
//! else. (The style of ours is checked with the list of `dlock-macros/src/tests/diagnostics`.)
//!
//! They read the `.stderr` files, which `mistakes_are_explained` compares with the compiler's
//! output.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use super::{folders, root};

/// Errors that underline the whole attribute or macro call, and why.
const WHOLE: [(&str, &str); 1] = [(
    "compiler/equals_sign",
    "the compiler's own error, besides ours",
)];

/// The line between the mistake and its mended form.
const MENDED: &str = "// Mended.";

/// A mistake and the messages about it.
struct Mistake {
    /// `folder/name`
    name: String,
    source: String,
    errors: Vec<Said>,
}

/// One error: a block of a `.stderr`.
struct Said {
    /// Its first line.
    headline: String,
    /// Its text without quoted source lines.
    words: String,
    /// The line and the column that it points to.
    line: usize,
    column: usize,
}

impl Said {
    fn read(block: &str) -> Self {
        let place = block
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("--> "));
        let mut place = place.unwrap().rsplit(':').map(|part| part.parse().unwrap());
        let (column, line) = (place.next().unwrap(), place.next().unwrap());
        let quoted = |line: &&str| {
            let number = line.split(" |").next().unwrap_or_default().trim();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        let words: Vec<_> = block.lines().filter(|line| !quoted(line)).collect();
        Self {
            headline: block.lines().next().unwrap().to_owned(),
            words: words.join("\n"),
            line,
            column,
        }
    }
}

fn mistakes() -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for folder in folders() {
        let files = fs::read_dir(root().join(&folder)).unwrap();
        let files: BTreeSet<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        for file in files {
            let (source, said) = (file.with_extension("rs"), file.with_extension("stderr"));
            assert!(
                source.exists() && said.exists(),
                "{} is alone",
                file.display()
            );
            if file == said {
                continue;
            }
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let said = fs::read_to_string(said).unwrap();
            let blocks = said.split("\n\nerror").enumerate();
            mistakes.push(Mistake {
                name: format!("{folder}/{stem}"),
                source: fs::read_to_string(source).unwrap(),
                errors: blocks
                    .map(|(at, block)| match at {
                        0 => Said::read(block),
                        _ => Said::read(&format!("error{block}")),
                    })
                    .collect(),
            });
        }
    }
    assert!(mistakes.len() > 45, "only {}", mistakes.len());
    mistakes
}

/// Fails with all mistakes that break a rule.
#[track_caller]
fn check(rule: impl Fn(&Mistake) -> Vec<String>) {
    if env::var_os("TRYBUILD").is_some() {
        return println!("the words are being written: run again without TRYBUILD");
    }
    let broken: Vec<_> = mistakes()
        .iter()
        .flat_map(|mistake| {
            let broken = rule(mistake).into_iter();
            broken.map(|why| format!("{}: {why}", mistake.name))
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn nothing_is_said_twice() {
    check(|mistake| {
        let mut said = BTreeSet::new();
        let again = |error: &&Said| !said.insert(error.headline.clone());
        let again = mistake.errors.iter().filter(again);
        again.map(|error| error.headline.clone()).collect()
    });
}

#[test]
fn errors_are_at_a_token() {
    check(|mistake| {
        let allowed = WHOLE.iter().any(|(name, _)| *name == mistake.name);
        let whole = |error: &&Said| {
            let line = mistake.source.lines().nth(error.line - 1).unwrap();
            let underlined: String = line.chars().skip(error.column - 1).collect();
            underlined.starts_with("#[") || underlined.starts_with("lock_key!")
        };
        let found: Vec<_> = mistake.errors.iter().filter(whole).collect();
        match (allowed, found.as_slice()) {
            (true, []) => vec!["points to a token now: take it off the list".to_owned()],
            (true, _) => Vec::new(),
            (false, found) => found.iter().map(|error| error.headline.clone()).collect(),
        }
    });
}

/// A user who follows the message gets code that compiles: it contains each word that the mended
/// attribute and signature have and the mistake has not. The mended part itself has no error.
#[test]
fn the_fix_is_in_the_words() {
    check(|mistake| {
        let Some((wrong, mended)) = mistake.source.split_once(MENDED) else {
            let ours = !mistake.name.starts_with("compiler/");
            return ours
                .then(|| "is not mended".to_owned())
                .into_iter()
                .collect();
        };
        let wrong: String = wrong
            .lines()
            .filter(|line| !line.starts_with("//!"))
            .collect();
        let said: String = mistake
            .errors
            .iter()
            .map(|error| error.words.as_str())
            .collect();
        let (wrong, said) = (words(&wrong), words(&said));
        let mut missing = words(&head(mended));
        missing.retain(|word| word != "mended" && !wrong.contains(word) && !said.contains(word));
        let first = mistake
            .source
            .lines()
            .position(|line| line.trim() == MENDED)
            .unwrap();
        let below = mistake.errors.iter().filter(|error| error.line > first);
        (missing
            .into_iter()
            .map(|word| format!("does not say `{word}`")))
        .chain(below.map(|error| format!("still wrong: {}", error.headline)))
        .collect()
    });
}

/// From the attribute to the body, or the call of `lock_key!`.
fn head(mended: &str) -> String {
    let mut inside = false;
    let mut head = String::new();
    for line in mended.lines() {
        inside |= line.contains("#[distributed_lock");
        if inside || line.contains("lock_key!(") {
            head.push_str(line);
        }
        inside &= !line.ends_with('{');
    }
    assert!(!head.is_empty(), "nothing is mended: {mended}");
    head
}

/// `"10s"` is `10` and `s`.
fn words(text: &str) -> BTreeSet<String> {
    let kind = |c: char| (c.is_ascii_digit(), c.is_alphanumeric() || c == '_');
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunk_by(|a, b| kind(*a) == kind(*b))
        .filter(|word| kind(word[0]).1)
        .map(|word| word.iter().collect())
        .collect()
}

/// A function with a wrong attribute still exists: its caller gets no error.
#[test]
fn the_function_is_still_usable() {
    check(|mistake| {
        let functions = mistake.source.split("fn ").skip(1);
        let names = functions.filter_map(|rest| rest.split(['(', '<', ' ']).next());
        let uncalled = names
            .filter(|name| !["main", "_"].contains(name) && !name.is_empty())
            .filter(|name| mistake.source.matches(name).count() < 2)
            .map(|name| format!("`{name}` is never used"));
        let lost = (mistake.errors.iter())
            .filter(|error| error.words.contains("cannot find function"))
            .map(|error| error.headline.clone());
        uncalled.chain(lost).collect()
    });
}
