//! Patches: changes of single paths and of entries of maps, and their conditions.

mod changes;
mod condition;
mod entry;

pub use changes::{Changeable, Counter, Patch, PatchBody, PatchError, PatchOperation};
pub use entry::EntryPath;
