//! The gate alone.
