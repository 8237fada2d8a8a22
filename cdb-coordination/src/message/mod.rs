//! Messages between partitions as they are stored: the documents that outbox and inbox share.

mod content;
mod context;
mod document;
mod envelope;
mod handlers;
mod lifetimes;
mod partition_fields;

pub use content::Side;
pub(crate) use content::{Answer, Content, Dead, Incoming, Outgoing, Seen, Stream};
pub use context::MessageContext;
pub use document::MessageDocument;
pub(crate) use document::MessageDocumentKey;
pub(crate) use document::fingerprint;
pub use envelope::{Address, DocumentMessage, Message, MessageId};
pub(crate) use envelope::{Envelope, MAX_MESSAGE_BYTES};
pub use handlers::Failed;
pub(crate) use handlers::catch_panic;
#[doc(hidden)]
pub use handlers::{Delivered, Handlers};
pub(crate) use lifetimes::Lifetimes;
