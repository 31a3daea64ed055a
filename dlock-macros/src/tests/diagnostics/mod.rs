//! The errors, the text that each underlines, and the fix that it proposes: `messages.txt` is the
//! list, and says how a case is written.
//!
//! A failure shows the case as it would have to be written for the macro as it is.

mod refused;

use std::{collections::BTreeSet, fmt::Write as _, panic::catch_unwind};

use proc_macro2::TokenStream;

const LIST: &str = include_str!("messages.txt");
const ITEM: &str = "async fn f(id: u64, buyer: &str) -> Result<u64, E> { Ok(id) }";
const LOCK_KEY: &str = "lock_key!";
const NO_ARGUMENTS: &str = "(no arguments)";

/// A use of the attribute on an item, or of `lock_key!`.
#[derive(Clone, Copy)]
struct Use<'a> {
    arguments: &'a str,
    item: &'a str,
}

impl<'a> Use<'a> {
    fn new(written: &'a str, item: &'a str) -> Self {
        let arguments = if written == NO_ARGUMENTS { "" } else { written };
        Self { arguments, item }
    }

    /// The item begins in a line of its own, so that spans tell which of the two they are in.
    fn tokens(self) -> [TokenStream; 2] {
        let item = format!("\n{}", self.item);
        [self.arguments, item.as_str()].map(|text| text.parse().unwrap())
    }

    fn errors(self) -> Vec<syn::Error> {
        let errors = if self.item == LOCK_KEY {
            let call = format!("::dlock_runtime, \n{}", self.arguments);
            crate::rules::lock_key(call.parse().unwrap()).err()
        } else {
            let [arguments, item] = self.tokens();
            crate::rules::model(arguments, &item).err()
        };
        errors.into_iter().flatten().collect()
    }

    /// The use and its errors, as the list has them.
    fn told(self, errors: &[syn::Error]) -> String {
        let written = match self.arguments {
            "" => NO_ARGUMENTS,
            written => written,
        };
        let (mut told, on) = (written.to_owned(), format!("\non: {}", self.item));
        let (mut below_item, mut has_item) = (false, self.item == ITEM);
        for error in errors {
            let (start, end) = (error.span().start(), error.span().end());
            if (error.span().source_text()).is_none_or(|text| text.is_empty()) {
                told.push_str("\n#[…]");
            } else {
                let in_item = self.item != LOCK_KEY && start.line == 2;
                if in_item != below_item {
                    told.push('\n');
                    told.push_str(if in_item { on.trim_start() } else { written });
                }
                (below_item, has_item) = (in_item, has_item || in_item);
                let indent = start.column + if in_item { "on: ".len() } else { 0 };
                let carets = "^".repeat(end.column - start.column);
                write!(told, "\n{:indent$}{carets}", "").unwrap();
            }
            write!(told, " {}", error.to_string().replace('\n', "\n    ")).unwrap();
        }
        if !has_item {
            told.push_str(&on);
        }
        told
    }

    /// Whatever is wrong, the user's item comes out unchanged behind the errors.
    fn check_expansion(self, errors: usize) -> Result<(), String> {
        if self.item == LOCK_KEY {
            return Ok(());
        }
        let [arguments, item] = self.tokens();
        let expansion = crate::tests::attribute(arguments, &item).to_string();
        // The stacked attributes were checked with it; left in place, they would report their
        // errors again.
        let kept = crate::rules::without_stacked(&item).to_string();
        if kept.contains("distributed_lock") || !expansion.ends_with(&kept) {
            return Err(format!("the item is not what it was: {expansion}"));
        }
        match expansion.matches(":: core :: compile_error !").count() {
            count if count == errors => Ok(()),
            count => Err(format!(
                "{count} errors are told, not {errors}: {expansion}"
            )),
        }
    }
}

/// The first line of a message is short and plain.
fn check_style(error: &syn::Error) -> Result<(), String> {
    let said = error.to_string();
    let first = said.lines().next().unwrap_or_default();
    let plain = !first.ends_with('.') && !first.starts_with(char::is_uppercase);
    match first.chars().count() {
        1..=200 if plain => Ok(()),
        count => Err(format!(
            "{count} characters, a capital or a full stop: {first}"
        )),
    }
}

/// A user who follows the message gets what is accepted: each word that the fix adds was said.
fn check_fix(wrong: Use<'_>, errors: &[syn::Error], mended: Use<'_>) -> Result<(), String> {
    let still = mended.errors();
    if !still.is_empty() {
        return Err(format!("the fix is wrong:\n{}", mended.told(&still)));
    }
    let said: BTreeSet<_> = errors
        .iter()
        .flat_map(|error| words(&error.to_string()))
        .collect();
    let known = words(&format!("{} {}", wrong.arguments, wrong.item));
    let head = mended.item.split_once('{');
    let head = head.map_or(mended.item, |(head, _)| head);
    let mut missing = words(&format!("{} {head}", mended.arguments));
    missing.retain(|word| word != "mended" && !known.contains(word) && !said.contains(word));
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "the fix needs words that are not said: {missing:?}"
        ))
    }
}

/// Splits `"10s"` into `10` and `s`.
fn words(text: &str) -> BTreeSet<String> {
    let kind = |c: char| (c.is_ascii_digit(), c.is_alphanumeric() || c == '_');
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunk_by(|a, b| kind(*a) == kind(*b))
        .filter(|word| kind(word[0]).1)
        .map(|word| word.iter().collect())
        .collect()
}

/// A block of the list: uses that are accepted, or one with its errors and fixes.
fn check(case: &str) -> Result<(), String> {
    let with = |name: &'static str| case.lines().filter_map(move |line| line.strip_prefix(name));
    let item = with("on: ").next().unwrap_or(ITEM);
    if case.starts_with("ok: ") {
        let unknown = |line: &&str| !line.starts_with("ok: ") && !line.starts_with("on: ");
        if let Some(line) = case.lines().find(unknown) {
            return Err(format!("beside `ok:` stands {line}"));
        }
        return with("ok: ").try_for_each(|written| {
            let accepted = Use::new(written, item);
            match accepted.errors() {
                errors if errors.is_empty() => Ok(()),
                errors => Err(format!("is refused:\n{}", accepted.told(&errors))),
            }
        });
    }
    let (written, fixes) = case.split_once("\nfix: ").unwrap_or((case, ""));
    let wrong = Use::new(written.lines().next().unwrap_or_default(), item);
    let errors = wrong.errors();
    let told = wrong.told(&errors);
    if errors.is_empty() || told != written {
        return Err(format!("the macro says:\n{told}\n"));
    }
    errors.iter().try_for_each(check_style)?;
    wrong.check_expansion(errors.len())?;
    for fix in fixes.split("\nfix: ").filter(|fix| !fix.is_empty()) {
        let (arguments, on) = fix.split_once("\nfix on: ").unwrap_or((fix, item));
        check_fix(wrong, &errors, Use::new(arguments, on))?;
    }
    Ok(())
}

/// The blocks of the list, each with its line.
fn cases() -> Vec<(usize, String)> {
    let mut cases: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (at, line) in LIST.lines().enumerate() {
        if line.is_empty() || line.starts_with("# ") || line == "#" {
            inside = false;
        } else if let (true, Some((_, case))) = (inside, cases.last_mut()) {
            case.push('\n');
            case.push_str(line);
        } else {
            cases.push((at + 1, line.to_owned()));
            inside = true;
        }
    }
    cases
}

#[test]
fn each_message_is_as_in_the_list() {
    let cases = cases();
    assert!(cases.len() > 550, "only {} cases", cases.len());
    let broken: Vec<_> = cases
        .iter()
        .filter_map(|(line, case)| {
            // A panic, such as one about text that is no Rust, names its case as well.
            let why = catch_unwind(|| check(case)).unwrap_or_else(|_| Err("panics".into()));
            let why = why.err()?;
            Some(format!("messages.txt:{line}: {case}\n{why}\n"))
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn no_case_stands_twice() {
    let (cases, mut seen) = (cases(), BTreeSet::new());
    for (line, case) in &cases {
        let on = case.lines().find(|line| line.starts_with("on: "));
        let new = seen.insert((case.lines().next(), on));
        assert!(new, "messages.txt:{line}: {case}\nstands above already");
    }
}

/// Cases that are too long for the list.
#[test]
fn how_many_keys() {
    let list = |count: usize| {
        let keys: Vec<_> = (0..count).map(|id| format!("\"k{id}\"")).collect();
        format!("keys = [{}]", keys.join(","))
    };
    assert_eq!(check(&format!("ok: {}", list(1000))), Ok(()));
    let said = "1001 keys are more than the 1000 that can be locked at once: lock what they have in common";
    assert_eq!(check(&format!("{}\n^^^^ {said}", list(1001))), Ok(()));
}

/// A lock below one that was expanded without seeing it is refused, since it would be taken first.
#[test]
fn below_one_that_did_not_see_it() {
    let message = "this lock stands below another and would yet be taken first: write both as `#[distributed_lock(…)]`, and put a \
                   `cfg_attr` with one in it above them";
    let get = "fn get<'async_trait>(&self) -> Pin<Box<dyn Future<Output = R> + 'async_trait>>";
    for item in [
        "#[other] async fn f() -> R { 1 }",
        "async fn f() -> R { #![allow(x)] 1 }",
        &format!(
            "{get} {{ Box::pin(async move {{ let __self = self; let __ret: R = {{ 1 }}; __ret }}) }}"
        ),
        &format!("{get} {{ Box::pin(async move {{ span(async move {{ 1 }}).await }}) }}"),
    ] {
        let upper = "key = \"upper\"".parse().unwrap();
        let locked = crate::tests::attribute(upper, &item.parse().unwrap());
        for lower in ["key = \"lower\"\n      ^^^^^^^", "keys = [\"lower\"]\n^^^^"] {
            let case = format!("{lower} {message}\non: {locked}");
            assert_eq!(check(&case), Ok(()), "{item}");
        }
    }
}
