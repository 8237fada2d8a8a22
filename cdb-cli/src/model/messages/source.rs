//! A source of failed messages. Commands, doctor and dashboard know no other.

use async_trait::async_trait;
use cdb_client::Page;
use cdb_client::query::Continuation;

use super::kind::{Action, List, Outcome, Source, Step};
use super::name::MessageName;
use super::row::{MessageDetail, MessageRow};
use crate::exit::Failure;

/// The failed messages of one kind.
#[async_trait]
pub(crate) trait MessageSource: Send + Sync {
    fn source(&self) -> Source;

    /// The steps whose failures are retried. Each has a list.
    fn steps(&self) -> &'static [Step];

    /// Reads a page of a list: dead messages oldest first, retried ones by age or next attempt.
    async fn page(
        &self,
        list: List,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<MessageRow>, Failure>;

    async fn count(&self, list: List) -> Result<u64, Failure>;

    /// Reads a message. Returns `None` when it is neither dead nor retried.
    async fn find(&self, name: &MessageName) -> Result<Option<MessageDetail>, Failure>;

    /// Redrives or discards a dead message. Checks the version that was read, so that of concurrent
    /// changes one succeeds.
    async fn apply(&self, name: &MessageName, action: Action) -> Result<Outcome, Failure>;
}
