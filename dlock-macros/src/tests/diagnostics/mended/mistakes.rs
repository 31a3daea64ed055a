//! Mistakes, each with its message, the place of the message, and the fix.

use super::{PURCHASE, Told, check_mended};
use crate::tests::diagnostics::check_on;

/// The mistake, the message, and the fixed use.
const USES: &[(&str, Told, &str)] = &[
    (
        r#"key: "item:<id>""#,
        &[(":", "expected `=`: write `key = \"item:<id>\"`")],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:<id>", ttl = "10s", ttl = "20s""#,
        &[("ttl", "duplicate argument `ttl`: remove one")],
        r#"key = "item:<id>", ttl = "20s""#,
    ),
    (
        r#"key = "item:<id>", guard = "lock""#,
        &[(
            r#""lock""#,
            "a name stands without quotes: write `guard = lock`",
        )],
        r#"key = "item:<id>", guard = lock"#,
    ),
    (
        r#"name = "item:<id>", lock_at_most_for = "10s", wait_time = "3s", watchdog = "3s""#,
        &[
            (
                "name",
                "unknown argument `name`, which is `key` here: write `key = \"item:<id>\"`",
            ),
            (
                "lock_at_most_for",
                "unknown argument `lock_at_most_for`, which is `ttl` here: write `ttl = \"10s\"`",
            ),
            (
                "wait_time",
                "unknown argument `wait_time`, which is `wait` here: write `wait = \"3s\"`",
            ),
            (
                "watchdog",
                "unknown argument `watchdog`, which is `renew` here: write `renew = \"3s\"`",
            ),
        ],
        r#"key = "item:<id>", ttl = "10s", wait = "3s", renew = "3s""#,
    ),
    (
        r#"key = "item:<id>", renew, max_renewals = "3""#,
        &[(
            r#""3""#,
            "a count stands without quotes: write `max_renewals = 3`",
        )],
        r#"key = "item:<id>", renew, max_renewals = 3"#,
    ),
    (
        r#"key = "item:<id>", renew = 5"#,
        &[(
            "5",
            "a duration has a unit and stands in quotes: write `renew = \"5s\"`",
        )],
        r#"key = "item:<id>", renew = "5s""#,
    ),
    (
        r#"key == "item:<id>""#,
        &[("=", "expected `=`: write `key = \"item:<id>\"`")],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:<id>", on_lost = finish"#,
        &[(
            "finish",
            "a word stands in quotes: write `on_lost = \"finish\"`",
        )],
        r#"key = "item:<id>", on_lost = "finish""#,
    ),
    (
        r#"key = "item:<id>", ttl = "10s", min_hold = "30s""#,
        &[(
            r#""30s""#,
            "min_hold 30s is longer than the ttl 10s, at which the lock ends: raise the ttl or add `renew`",
        )],
        r#"key = "item:<id>", ttl = "10s", min_hold = "30s", renew"#,
    ),
    (
        r#"key = "@item:<id>""#,
        &[(
            r#""@item:<id>""#,
            "a key must not begin with `@`: such names are for the lock's own keys, so begin it with another character\n  | \"@item:<id>\"\n  |  ^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item[id]""#,
        &[(
            r#""item[id]""#,
            "`[id` is text, the same for every value: write `<id>`, or `key = dlock_runtime::Key::verbatim(\"item[id]\")` if it shall be",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:<ID>""#,
        &[(
            r#""item:<ID>""#,
            "unknown name `ID` in the key template, arguments are: id\n  | \"item:<ID>\"\n  |        ^^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:\n<id>""#,
        &[(
            r#""item:\n<id>""#,
            "a key must not contain control characters or others that nobody sees: use printable text, or a template, which encodes its values\n  | \"item:\\n<id>\"\n  |       ^^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:{}""#,
        &[(
            r#""item:{}""#,
            "the hash tag is empty, so the cluster would ignore it: put text or a value such as `<id>` between `{` and `}`\n  | \"item:{}\"\n  |       ^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:<>""#,
        &[(
            r#""item:<>""#,
            "this placeholder is empty: name an argument, or write `<<` for a literal `<`\n  | \"item:<>\"\n  |       ^^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:<id:08>""#,
        &[(
            r#""item:<id:08>""#,
            "a placeholder holds a name, then fields, tuple indices or calls without arguments, such as `<order.user.id>`: else write `key = { let part = …; dlock_runtime::lock_key!(\"item:<part>\") }`\n  | \"item:<id:08>\"\n  |        ^^^^^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:{<id>""#,
        &[(
            r#""item:{<id>""#,
            "braces in a key are the cluster's hash tag and come in a pair: write `{tag}` or no brace\n  | \"item:{<id>\"\n  |       ^",
        )],
        r#"key = "item:{<id>}""#,
    ),
    (
        r#"key = "item:<id.pow(2)>""#,
        &[(
            r#""item:<id.pow(2)>""#,
            "a placeholder holds a name, then fields, tuple indices or calls without arguments, such as `<order.user.id>`: else write `key = { let part = …; dlock_runtime::lock_key!(\"item:<part>\") }`\n  | \"item:<id.pow(2)>\"\n  |           ^^^^^^",
        )],
        r#"key = { let part = id.pow(2); lock_key!("item:<part>") }"#,
    ),
    (
        r#"key = "item%<id>""#,
        &[(
            r#""item%<id>""#,
            "`%` is what encoded values are written with: write another character, or `<id>` for the value of `id`\n  | \"item%<id>\"\n  |      ^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:< id >""#,
        &[(
            r#""item:< id >""#,
            "a placeholder has no spaces: write `<id>`\n  | \"item:< id >\"\n  |        ^^^^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:<id>""#,
        &[(
            r#""item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:item:<id>""#,
            "the key has 516 bytes, namespace included, and at most 512 are allowed: hash the long part",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"key = "{item}:{<id>}""#,
        &[(
            r#""{item}:{<id>}""#,
            "a key has at most one hash tag: keep the one that the cluster shall place the key by, without braces elsewhere\n  | \"{item}:{<id>}\"\n  |         ^",
        )],
        r#"key = "item:{<id>}""#,
    ),
    (
        r#"key = "item:<id""#,
        &[(
            r#""item:<id""#,
            "this placeholder is not closed: write `>` after it, or `<<` for a literal `<`\n  | \"item:<id\"\n  |       ^^^",
        )],
        r#"key = "item:<id>""#,
    ),
    (
        r#"keys = ["item:<id>", "shop", "item:<id>"]"#,
        &[(
            r#""item:<id>""#,
            "this key stands in the list already: remove one of the two",
        )],
        r#"keys = ["item:<id>", "shop"]"#,
    ),
    (
        r#"key = "item:<id>", type = LockType::Write"#,
        &[(
            "type",
            "unknown argument `type`: a kind is an argument itself, so write `write`",
        )],
        r#"key = "item:<id>", write"#,
    ),
    (
        r#"key = ["item:<id>", "market"]"#,
        &[(
            r#"["item:<id>", "market"]"#,
            "`key` is one key, and several are a list under `keys`: write `keys = [\"item:<id>\", \"market\"]`",
        )],
        r#"keys = ["item:<id>", "market"]"#,
    ),
    (
        r#"key = "item:<id>", reentrant, owner = "<workflow>""#,
        &[(
            r#""<workflow>""#,
            "unknown name `workflow` in the owner's template, arguments are: id\n  | \"<workflow>\"\n  |   ^^^^^^^^",
        )],
        r#"key = "item:<id>", reentrant, owner = "<id>""#,
    ),
    (
        r#"key = "item:<id>", reentrant = "order:<id>""#,
        &[(
            r#""order:<id>""#,
            "`reentrant` takes no value: write `reentrant, owner = \"order:<id>\"` if that is the owner's name, else `reentrant` alone",
        )],
        r#"key = "item:<id>", reentrant, owner = "order:<id>""#,
    ),
    (
        r#"key = "item:<id>", permits = 5000, take = 5000"#,
        &[(
            "5000",
            "one holder takes at most 1000 permits: lower `take`, or count in larger units",
        )],
        r#"key = "item:<id>", permits = 5000, take = 1000"#,
    ),
    (
        r#"key = "item:<id>", permits = 10000000"#,
        &[(
            "10000000",
            "a lock has at most 1000000 permits: lower the number, or count in larger units",
        )],
        r#"key = "item:<id>", permits = 1000000"#,
    ),
    (
        r#"key = "item:<id>", ttl = TTL"#,
        &[(
            "TTL",
            "`ttl` is read when compiling: write `ttl = \"10s\"`; a value that only the running program knows goes through `pool.lock(key).ttl(TTL)`",
        )],
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", ttl = """#,
        &[(
            r#""""#,
            "duration \"\" is empty: write one such as \"10s\" or \"1m30s\"",
        )],
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", ttl = "1.5s""#,
        &[(
            r#""1.5s""#,
            "duration \"1.5s\" contains '.': write whole numbers with units and nothing between, such as \"1500ms\" or \"1m30s\"",
        )],
        r#"key = "item:<id>", ttl = "1500ms""#,
    ),
    (
        r#"key = "item:<id>", wait = "-1s""#,
        &[(
            r#""-1s""#,
            "duration \"-1s\" contains '-': write whole numbers with units and nothing between, such as \"1500ms\" or \"1m30s\"; or write \"forever\"",
        )],
        r#"key = "item:<id>", wait = "1500ms""#,
    ),
    (
        r#"key = "item:<id>", ttl = "1s1m""#,
        &[(
            r#""1s1m""#,
            "duration \"1s1m\" must name the largest unit first and each once: write \"1m1s\"",
        )],
        r#"key = "item:<id>", ttl = "1m1s""#,
    ),
    (
        r#"key = "item:<id>", wait = "99999999999999999999s""#,
        &[(
            r#""99999999999999999999s""#,
            "duration \"99999999999999999999s\" is too long to be counted in milliseconds: write a shorter one; or write \"forever\"",
        )],
        r#"key = "item:<id>", wait = "forever""#,
    ),
    (
        r#"key = "item:<id>", ttl = "10 s""#,
        &[(r#""10 s""#, "duration \"10 s\" contains ' ': write \"10s\"")],
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", ttl = "48h""#,
        &[(
            r#""48h""#,
            "ttl 2d is longer than the maximum of 24h: use a shorter ttl and `renew`",
        )],
        r#"key = "item:<id>", ttl = "24h", renew"#,
    ),
    (
        r#"key = "item:<id>", ttl = "10sec""#,
        &[(
            r#""10sec""#,
            "duration \"10sec\" has the unknown unit \"sec\": write \"10s\"",
        )],
        r#"key = "item:<id>", ttl = "10s""#,
    ),
    (
        r#"key = "item:<id>", wait = "2w""#,
        &[(
            r#""2w""#,
            "duration \"2w\" has the unknown unit \"w\": use ms, s, m, h or d; or write \"forever\"",
        )],
        r#"key = "item:<id>", wait = "2d""#,
    ),
    (
        r#"key = "item:<id>", wait = "infinite""#,
        &[(
            r#""infinite""#,
            "duration \"infinite\" needs a number before the unit, such as \"10s\"; or write \"forever\"",
        )],
        r#"key = "item:<id>", wait = "forever""#,
    ),
];

#[test]
fn the_words_and_the_fix_in_them() {
    for (wrong, told, mended) in USES {
        check_on(PURCHASE, wrong, told);
        check_mended((wrong, PURCHASE), (mended, PURCHASE));
    }
}
