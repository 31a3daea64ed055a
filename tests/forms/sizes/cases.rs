//! The functions whose futures are measured: here by a test, in `examples/cost` for a table.
//!
//! `for_all_cases!(then)` gives each of them to the macro `then`: a name, the attribute's
//! arguments, the function's arguments, the type in its `Result<_, LockError>`, and its body. The
//! place of use needs `KIB`, `LockError`, `LockPool`, `memory` and `yield_now`, in functions that
//! return a `Result`.

macro_rules! for_all_cases {
    ($then:ident) => {
        $then! {
            nothing: [key = "k"], () -> usize, { Ok(0) };

            one_await: [key = "k"], () -> usize, {
                yield_now().await;
                Ok(0)
            };

            every_option: [key = "k:<id>", ttl = "10s", wait = "1s", renew, on_lost = "finish", crate = ::dlock_runtime],
            (id: usize = 1) -> usize, {
                yield_now().await;
                Ok(id)
            };

            a_kib_in_a_local: [key = "k"], () -> usize, {
                let local = std::hint::black_box([1_u8; KIB]);
                yield_now().await;
                Ok(local.len())
            };

            a_kib_in_an_argument: [key = "k"], (argument: [u8; KIB] = [1; KIB]) -> usize, {
                yield_now().await;
                Ok(argument.len())
            };

            a_kib_in_both: [key = "k"], (argument: [u8; KIB] = [1; KIB]) -> usize, {
                let local = std::hint::black_box([1_u8; KIB]);
                yield_now().await;
                Ok(local.len() + argument.len())
            };

            many_arguments: [key = "<a>:<b>"],
            (a: u64 = 1, b: u64 = 2, c: String = String::new(), d: Vec<u8> = vec![1]) -> usize, {
                yield_now().await;
                Ok(c.len() + d.len() + usize::try_from(a + b).unwrap_or(0))
            };

            a_pool_expression: [key = "k", pool = pool], (pool: LockPool = memory().await?) -> usize, {
                yield_now().await;
                Ok(format!("{pool:?}").len())
            };

            // The returned value is kept until the release is done; it takes the body's place in
            // the future and adds nothing to it.
            a_kib_returned: [key = "k"], () -> [u8; KIB], {
                let local = std::hint::black_box([1_u8; KIB]);
                yield_now().await;
                Ok(local)
            };
        }
    };
}
