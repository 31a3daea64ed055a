//! What several of the test programs need.
