//! One idea a file
