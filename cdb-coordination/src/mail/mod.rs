//! Messages between partitions as they are stored: what outbox and inbox have in common.

mod content;
mod document;
mod letter;
mod lifetimes;
mod place;

pub use content::Side;
pub(crate) use content::{Content, Dead, Incoming, Outgoing, Seen, Stream};
pub(crate) use document::fingerprint;
pub use document::{Mail, MailKey};
pub use letter::{Address, Message, MessageId};
pub(crate) use letter::{Letter, MAX_MESSAGE_BYTES};
pub(crate) use lifetimes::Lifetimes;
