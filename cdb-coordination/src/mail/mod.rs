//! Messages between partitions as they are stored: what outbox and inbox have in common.

mod content;
mod document;
mod letter;
mod lifetimes;
mod place;

pub use content::Side;
pub(crate) use content::{Content, Dead, Incoming, Outgoing, Seen, Stream};
pub use document::Mail;
pub(crate) use document::MailKey;
pub(crate) use document::fingerprint;
pub use letter::{Address, Message, MessageId};
pub(crate) use letter::{Letter, MAX_MESSAGE_BYTES};
pub(crate) use lifetimes::Lifetimes;
