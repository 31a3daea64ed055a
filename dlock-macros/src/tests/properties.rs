//! Properties for any input: an accepted template keeps values apart and renders a valid key, and
//! the macros never panic or lose the user's item.

use crate::args::ARGUMENTS;
use crate::template::{Part, Template, parse};
use dlock_grammar::{
    key,
    kind::{self, Word},
};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest},
    sample::{select, subsequence},
};
use quote::quote;
use std::collections::HashSet;

fn render(template: &Template, values: &[&str]) -> String {
    let mut values = values.iter();
    let mut key = String::new();
    for part in &template.parts {
        match part {
            Part::Text(text) => key.push_str(text),
            Part::Place(_) => key::encode(values.next().unwrap(), &mut key),
        }
    }
    key
}

/// All texts of at most two of the characters.
fn texts(characters: &str) -> Vec<String> {
    let one: Vec<_> = characters
        .chars()
        .map(String::from)
        .chain([String::new()])
        .collect();
    let two = one
        .iter()
        .flat_map(|a| one.iter().map(move |b| format!("{a}{b}")));
    two.collect::<HashSet<_>>().into_iter().collect()
}

/// The rule about separators is sufficient: whatever stands between two placeholders, an accepted
/// template keeps them apart.
#[test]
fn an_accepted_template_is_injective() {
    let values = texts("a.-:%");
    for between in texts("aA0_.-:%/{}@<>") {
        let Ok(template) = parse(&format!("k:<a>{between}<b>")) else {
            continue;
        };
        // `<<` before the second makes it text.
        if template
            .parts
            .iter()
            .filter(|part| matches!(part, Part::Place(_)))
            .count()
            < 2
        {
            continue;
        }
        let mut seen = HashSet::new();
        for a in &values {
            for b in &values {
                assert!(
                    seen.insert(render(&template, &[a, b])),
                    "{between:?}: {a:?} and {b:?}"
                );
            }
        }
    }
}

/// Tokens besides [`ARGUMENTS`]: others with a meaning here, and all other kinds of token.
const TOKENS: [&str; 45] = [
    "5",
    "timeout",
    "lock_key",
    "distributed_lock",
    "main",
    "id",
    "self",
    "Self",
    "_",
    "r#type",
    "größe",
    "async",
    "fn",
    "unsafe",
    "extern",
    "const",
    "pub",
    "impl",
    "struct",
    "move",
    "gen",
    "dyn",
    "'a",
    "=",
    "==",
    "=>",
    ",",
    ";",
    ":",
    "::",
    ".",
    "!",
    "#",
    "->",
    "<",
    "&",
    "|",
    "?",
    "10s",
    "1.5",
    "'c'",
    "b\"item\"",
    "c\"item\"",
    "r#\"a:<id>\"#",
    "\"item:<id>\"",
];

/// All words about the kind.
const KIND: [Word; 11] = [
    Word::Read,
    Word::Write,
    Word::Permits(None),
    Word::Take(None),
    Word::Reentrant,
    Word::Owner,
    Word::Fair,
    Word::OncePer,
    Word::AfterCrash,
    Word::Lead,
    Word::Keys,
];

/// Any tokens, in groups of every delimiter; `macro_rules!` makes the invisible ones.
fn tokens() -> impl Strategy<Value = TokenStream> {
    let known: Vec<_> = ARGUMENTS.into_iter().chain(TOKENS).collect();
    let token = prop_oneof![
        8 => select(known).prop_map(|token| token.parse().unwrap()),
        1 => "[0-9a-z<>{}#.]{0,6}".prop_map(|text| quote!(#text)),
        1 => any::<char>().prop_map(|c| quote!(#c)),
    ];
    let tokens = token.prop_recursive(3, 24, 5, |inner| {
        let delimiter = prop_oneof![
            Just(Delimiter::Parenthesis),
            Just(Delimiter::Brace),
            Just(Delimiter::Bracket),
            Just(Delimiter::None),
        ];
        (delimiter, vec(inner, 0..5)).prop_map(|(delimiter, inner)| {
            TokenTree::Group(Group::new(delimiter, inner.into_iter().collect())).into()
        })
    });
    vec(tokens, 0..12).prop_map(|all: Vec<TokenStream>| all.into_iter().collect())
}

/// Checks the output: errors and the unchanged item, or a function that keeps its signature and
/// body.
fn keeps(arguments: &TokenStream, item: &TokenStream, kept: &[&TokenStream]) -> Result<(), String> {
    let expansion = crate::tests::attribute(arguments.clone(), item).to_string();
    let refused = crate::rules::model(arguments.clone(), item).is_err();
    let has = |kept: &&TokenStream| expansion.contains(&kept.to_string());
    let found = if refused {
        let item = crate::rules::without_stacked(item).to_string();
        let error = expansion.contains(":: core :: compile_error !");
        let guarded = expansion.contains(":: __private :: held ()") && kept.iter().all(has);
        error && (expansion.ends_with(&item) || guarded)
    } else {
        kept.iter().all(has)
    };
    found.then_some(()).ok_or(expansion)
}

proptest! {
    #[test]
    fn parse_never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn parse_never_panics_near_its_own_notation(text in "([a-zé{}%@:.-]|<<|<a>|<|>|\\(\\)|r#|self|\n){0,12}") {
        let _ = parse(&text);
    }

    /// The runtime accepts what the compiler accepts: only an empty tag and the length depend on
    /// values.
    #[test]
    fn an_accepted_template_renders_a_valid_key(text in "([a:{}@]|<a>|<<){1,8}", value in "\\PC{1,4}") {
        if let Ok(template) = parse(&text) {
            prop_assert_eq!(key::check(&render(&template, &[value.as_str(); 8])), Ok(()));
        }
    }

    #[test]
    fn any_key_literal_expands(text in any::<String>()) {
        let _ = crate::tests::attribute(quote!(key = #text), &quote!(async fn f(id: u64) -> Result<(), E> { Ok(()) }));
        let _ = crate::lock_key(quote!(::dlock_runtime, #text));
    }

    #[test]
    fn any_arguments_expand(
        arguments in format!("(({}|x|self) ?|[=,.<:]|\"[a-z0-9<>]{{0,4}}\"|\\(\\)|1){{0,12}}", ARGUMENTS.join("|")).as_str(),
        item in "(async |fn |f|\\(\\)|\\{\\}|->|!|;|struct |pub |const |extern |#\\[x\\]){0,8}",
    ) {
        if let (Ok(arguments), Ok(item)) = (arguments.parse(), item.parse()) {
            let _ = crate::tests::attribute(arguments, &item);
        }
    }

    /// For any words about the kind, the compiler refuses what the runtime would, with the same
    /// message.
    #[test]
    fn a_kind_is_refused_as_the_runtime_does(
        words in subsequence(KIND.to_vec(), 0..=KIND.len()).prop_shuffle(),
        of in select(&[0, 1, 2, 5, 2000, 1_000_001]),
        take in select(&[0, 1, 3, 1001]),
    ) {
        let written: Vec<_> = words.iter().map(|word| match word {
            Word::Permits(_) => (Word::Permits(Some(of)), format!("permits = {of}")),
            Word::Take(_) => (Word::Take(Some(take)), format!("take = {take}")),
            Word::Owner => (Word::Owner, "owner = \"<id>\"".to_owned()),
            Word::OncePer => (Word::OncePer, "once_per = \"20h\"".to_owned()),
            Word::AfterCrash => (Word::AfterCrash, "after_crash = \"skip\"".to_owned()),
            Word::Keys => (Word::Keys, "keys = [\"a:<id>\"]".to_owned()),
            word => (*word, word.name().to_owned()),
        }).collect();
        let (words, mut arguments): (Vec<_>, Vec<_>) = written.into_iter().unzip();
        if !words.contains(&Word::Keys) {
            arguments.push("key = \"a\"".to_owned());
        }
        let item = quote!(async fn f(id: u64) -> Result<(), E> { Ok(()) });
        let refused = crate::rules::model(arguments.join(",").parse().unwrap(), &item).err();
        let refused: Vec<_> = refused.into_iter().flatten().map(|error| error.to_string()).collect();
        let expected: Vec<_> = kind::check(&words).iter().map(ToString::to_string).collect();
        prop_assert_eq!(refused, expected);
    }

    #[test]
    fn garbage_keeps_the_item(arguments in tokens(), item in tokens()) {
        prop_assert_eq!(keeps(&arguments, &item, &[]), Ok(()));
    }

    #[test]
    fn garbage_in_the_body_is_kept(arguments in tokens(), body in tokens()) {
        // `#![…]` may stand only at the beginning, and moves there.
        let body = quote!(let x = 1; #body);
        let signature = quote!(pub async fn f<T>(&self, id: u64, (a, b): (T, u8)) -> Result<u64, E> where T: Send);
        let item = quote!(#[doc = "x"] #signature { #body });
        prop_assert_eq!(keeps(&arguments, &item, &[&signature, &body]), Ok(()));
        let key = quote!(key = "item:<id>");
        prop_assert_eq!(keeps(&key, &item, &[&signature, &body]), Ok(()));
        prop_assert!(crate::rules::model(key, &item).is_ok());
    }

    #[test]
    fn garbage_in_a_signature_keeps_the_item(signature in tokens(), attributes in tokens()) {
        let item = quote!(#[distributed_lock(#attributes)] #[x] async fn f(#signature) -> Result<(), E> { Ok(()) });
        prop_assert_eq!(keeps(&quote!(key = "a", ttl = "1s"), &item, &[]), Ok(()));
    }

    #[test]
    fn garbage_in_lock_key_expands(input in tokens()) {
        let _ = crate::lock_key(input.clone());
        let _ = crate::lock_key(quote!(::dlock_runtime, #input));
    }
}

/// The inputs that the fuzz target `template` has found, and those it began with.
#[test]
fn the_corpus_of_the_fuzz_target_is_parsed_without_a_panic() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fuzz/corpus/template");
    let inputs: Vec<_> = std::fs::read_dir(corpus).unwrap().collect();
    assert!(inputs.len() > 2);
    for input in inputs {
        let bytes = std::fs::read(input.unwrap().path()).unwrap();
        let text = &*String::from_utf8_lossy(&bytes);
        let _ = (parse(text), crate::template::parse_owner(text));
    }
}
