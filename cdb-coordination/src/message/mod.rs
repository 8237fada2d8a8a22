//! Messages between partitions as they are stored: the documents that outbox and inbox share.

mod content;
mod context;
pub(crate) mod document;
pub(crate) mod envelope;
pub(crate) mod handlers;
mod lifetimes;
mod partition_fields;

pub use content::Side;
pub(crate) use content::{Answer, Content, Dead, Incoming, Outgoing, Seen, Stream};
pub use context::MessageContext;
pub(crate) use document::{MessageDocument, MessageDocumentKey, fingerprint};
pub use envelope::{DocumentMessage, MessageAddress, MessageId};
pub(crate) use envelope::{Envelope, MAX_MESSAGE_BYTES, Message};
#[doc(hidden)]
pub use handlers::{Delivered, Handlers};
pub(crate) use handlers::{HandlerError, catch_panic};
pub(crate) use lifetimes::Lifetimes;
