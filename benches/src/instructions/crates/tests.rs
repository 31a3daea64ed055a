//! Instructions and the crates that they are assigned to.

use super::{Crate, allocates};

#[test]
fn the_source_file_tells_the_crate_of_inlined_code() {
    for (file, meant) in [
        (
            "/r/registry/src/index.crates.io-19/redis-1.8.1/src/cmd.rs",
            Crate::Redis,
        ),
        (
            "/r/registry/src/index.crates.io-19/mio-1.2.0/src/poll.rs",
            Crate::Tokio,
        ),
        (
            "/r/registry/src/index.crates.io-19/pin-project-lite-0.2/src/lib.rs",
            Crate::Other,
        ),
        ("/rustc/59807616/library/core/src/fmt/mod.rs", Crate::Std),
        ("/home/a/dlock-runtime/src/driver/acquire.rs", Crate::Dlock),
        ("benches/src/contenders/ours.rs", Crate::Dlock),
    ] {
        let around = "<redis::Cmd as core::fmt::Debug>::fmt";
        assert_eq!(Crate::of(file, around), meant, "{file}");
    }
}

#[test]
fn without_a_file_the_function_tells_it() {
    for (function, meant) in [
        ("redis::cmd::Cmd::arg", Crate::Redis),
        (
            "<&mut tokio::sync::Notify as core::future::Future>::poll",
            Crate::Tokio,
        ),
        ("<dyn core::fmt::Write>::write_fmt", Crate::Std),
        ("dlock_runtime::driver::acquire::{{closure}}", Crate::Dlock),
        ("itoa::Buffer::format", Crate::Other),
        ("epoll_wait", Crate::Libc),
    ] {
        assert_eq!(Crate::of("???", function), meant, "{function}");
    }
}

#[test]
fn memory_and_copies_are_by_function_wherever_they_are_inlined() {
    for (function, meant) in [
        ("malloc", Crate::Allocator),
        ("free", Crate::Allocator),
        ("_int_free", Crate::Allocator),
        ("alloc::raw_vec::RawVec<T,A>::grow_one", Crate::Allocator),
        ("__memcpy_avx_unaligned_erms", Crate::Copying),
        ("__memcmp_avx2_movbe", Crate::Copying),
    ] {
        let file = "/rustc/59807616/library/core/src/ptr/mod.rs";
        assert_eq!(Crate::of(file, function), meant, "{function}");
    }
    assert!(allocates("malloc") && !allocates("free") && !allocates("_int_free"));
}
