//! A process that takes locks.

fn main() {}
