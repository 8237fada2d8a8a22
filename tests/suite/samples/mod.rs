//! End-to-end samples.
