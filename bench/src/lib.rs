//! The small steps of the hot path, for the criterion benches and for counting instructions.

pub mod micro;
