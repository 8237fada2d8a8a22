//! The stored form: documents, and what reads and writes them without knowing of turns and queues.

pub(crate) mod admission;
pub(crate) mod attributes;
#[doc(hidden)]
pub mod codegen_support;
mod corrupt_documents;
pub(crate) mod custom_status;
pub mod documents;
pub(crate) mod found;
pub(crate) mod history;
pub(crate) mod instance_labels;
pub(crate) mod kv;
pub mod payload;
pub(crate) mod schema;
pub(crate) mod spill;
mod store;
mod tasks;

pub(crate) use corrupt_documents::is_ours;
pub(crate) use store::{Store, StoreSettings, is_token_of};
