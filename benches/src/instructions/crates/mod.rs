//! Assigns an instruction to a crate: by its source file, which also separates an inlined function
//! from the one around it, or else by the name of its function.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Crate {
    /// The runtime, the attribute's expansion and the workload's loop.
    Dlock,
    Redis,
    /// And `mio`.
    Tokio,
    /// core, alloc and std.
    Std,
    Other,
    /// malloc, free and the functions between them and a caller.
    Allocator,
    /// memcpy, memmove, memset, memcmp.
    Copying,
    /// Clock readings, the dynamic linker and the rest of libc.
    Libc,
}

impl Crate {
    /// In the order of the table's columns.
    pub(super) const ALL: [Self; 8] = [
        Self::Dlock,
        Self::Redis,
        Self::Tokio,
        Self::Std,
        Self::Other,
        Self::Allocator,
        Self::Copying,
        Self::Libc,
    ];

    /// The crate of an instruction in this function, inlined from this file; the file is `???` if
    /// the program has no line tables for it.
    pub(super) fn of(file: &str, function: &str) -> Self {
        const COPIES: [&str; 5] = ["memcpy", "memmove", "memset", "memcmp", "bcmp"];
        if allocates(function) || frees(function) {
            return Self::Allocator;
        }
        if COPIES.iter().any(|it| function.contains(it)) {
            return Self::Copying;
        }
        Self::of_file(file).unwrap_or_else(|| Self::of_name(function))
    }

    /// The name for instructions without a known source file.
    pub(super) fn without_lines(self) -> &'static str {
        match self {
            Self::Dlock => "dlock, not inlined",
            Self::Redis => "redis, not inlined",
            Self::Tokio => "tokio, not inlined",
            Self::Std => "std, not inlined",
            Self::Other => "other crates, not inlined",
            Self::Allocator => "the allocator",
            Self::Copying => "copying",
            Self::Libc => "libc",
        }
    }

    fn of_file(file: &str) -> Option<Self> {
        if let Some((_, inside)) = file.split_once("/registry/src/") {
            // index/name-version/src/…
            return Some(Self::named(inside.split('/').nth(1)?.rsplit_once('-')?.0));
        }
        if file.contains("/rustc/") || file.contains("/library/") {
            return Some(Self::Std);
        }
        let own = ["dlock-runtime/", "benches/src/"];
        let is_own = own.iter().any(|folder| file.contains(folder));
        is_own.then_some(Self::Dlock)
    }

    /// The crate of `<&redis::Cmd as core::fmt::Debug>::fmt` is `redis`.
    fn of_name(function: &str) -> Self {
        let ignored = |sign: char| !sign.is_ascii_alphanumeric() && sign != '_';
        let name = function.trim_start_matches(ignored);
        let name = name.trim_start_matches("mut ").trim_start_matches("dyn ");
        match name.split_once("::") {
            Some((name, _)) => Self::named(name),
            None => Self::Libc,
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "core" | "alloc" | "std" | "hashbrown" => Self::Std,
            "redis" => Self::Redis,
            "tokio" | "mio" => Self::Tokio,
            _ if name.starts_with("dlock") => Self::Dlock,
            _ => Self::Other,
        }
    }
}

/// Whether the function belongs to the allocator.
pub(super) fn allocates(function: &str) -> bool {
    const NAMES: [&str; 12] = [
        "malloc",
        "calloc",
        "realloc",
        "aligned_alloc",
        "memalign",
        "__rust_alloc",
        "__rust_realloc",
        "__rdl_alloc",
        "__rdl_realloc",
        "alloc::alloc::",
        "alloc::raw_vec::",
        "exchange_malloc",
    ];
    NAMES.iter().any(|name| function.contains(name)) && !frees(function)
}

fn frees(function: &str) -> bool {
    const NAMES: [&str; 5] = [
        "__rust_dealloc",
        "__rdl_dealloc",
        "_int_free",
        "unlink_chunk",
        "tcache",
    ];
    function == "free" || function == "cfree" || NAMES.iter().any(|it| function.contains(it))
}

#[cfg(test)]
mod tests;
