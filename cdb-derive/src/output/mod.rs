//! What the derives generate: from a checked model to code or diagnostics.

pub(crate) mod derived;
pub(crate) mod private;
pub(crate) mod respan;
