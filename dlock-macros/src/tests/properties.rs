use crate::template::{Part, Template, parse};
use dlock_grammar::key;
use proptest::prelude::{any, prop_assert_eq, proptest};
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

/// The rule about separators is enough: whatever stands between two placeholders, an accepted template keeps them apart.
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

proptest! {
    #[test]
    fn parse_never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn parse_never_panics_near_its_own_notation(text in "([a-zé{}%@:.-]|<<|<a>|<|>|\\(\\)|r#|self|\n){0,12}") {
        let _ = parse(&text);
    }

    /// What the compiler accepts, the runtime accepts: only an empty tag and the length depend on values.
    #[test]
    fn an_accepted_template_renders_a_valid_key(text in "([a:{}@]|<a>|<<){1,8}", value in "\\PC{1,4}") {
        if let Ok(template) = parse(&text) {
            prop_assert_eq!(key::check(&render(&template, &[value.as_str(); 8])), Ok(()));
        }
    }

    #[test]
    fn any_key_literal_expands(text in any::<String>()) {
        let _ = crate::attribute(quote!(key = #text), &quote!(async fn f(id: u64) -> Result<(), E> { Ok(()) }));
        let _ = crate::lock_key(quote!(::dlock_runtime, #text));
    }

    #[test]
    fn any_arguments_expand(
        arguments in "((key|ttl|wait|renew|max_hold|max_renewals|min_hold|on_busy|release|guard|pool|crate|on_lost|map_err|x|self) ?|[=,.<:]|\"[a-z0-9<>]{0,4}\"|\\(\\)|1){0,12}",
        item in "(async |fn |f|\\(\\)|\\{\\}|->|!|;|struct |pub |const |extern |#\\[x\\]){0,8}",
    ) {
        if let (Ok(arguments), Ok(item)) = (arguments.parse(), item.parse()) {
            let _ = crate::attribute(arguments, &item);
        }
    }
}
