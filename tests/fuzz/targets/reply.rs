#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dlock_runtime::fuzzing::reply(bytes));
