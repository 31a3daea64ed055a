//! The template of a key or an owner in an attribute. The parser is part of a procedural macro, from which
//! nothing can be imported.
#![no_main]

#[allow(dead_code, unreachable_pub, reason = "only its parser is called")]
#[path = "../../../dlock-macros/src/template.rs"]
mod template;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = &*String::from_utf8_lossy(bytes);
    let _ = (template::parse(text), template::parse_owner(text));
});
