//! Requests from outside that may be repeated: the answer is committed with the change.

use cdb_model::container::MemberOf;
use cdb_model::{Container, Document as _, PartitionKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;

use super::builder::Messaging;
use crate::message::{Answer, Content, MessageDocument, MessageDocumentKey};
use crate::outbox::{OutboxBatch, OutboxError};

impl<C: Container> Messaging<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    /// Commits a change with the answer to a request, once per partition and `request_id`. Returns
    /// `answer`, or the stored answer if the request was committed before: by another process, or by
    /// a commit whose response was lost. The answer is remembered for the retention.
    ///
    /// ```
    /// use cdb_coordination::Messaging;
    /// use cdb_model::Document as _;
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// # use shop::order;
    /// # shop::with_shop(async |shop| {
    ///
    /// let messaging = Messaging::builder(shop).start()?;
    /// let mut numbers = Vec::new();
    /// for number in [7, 8] {
    ///     // The client has sent its request twice; the second run would create another order.
    ///     let mut batch = messaging.batch("ann");
    ///     batch.add(order(number).create())?;
    ///     numbers.push(messaging.commit_once(batch, "request-1", number).await?);
    /// }
    /// assert_eq!(numbers, [7, 7]);
    /// # messaging.stop().await; Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// See [`OutboxError`]. Without a stored answer the error is that of
    /// [`commit`](Self::commit); repeat the request under the same id.
    pub async fn commit_once<R: Serialize + DeserializeOwned>(
        &self,
        mut batch: OutboxBatch<C>,
        request_id: &str,
        answer: R,
    ) -> Result<R, OutboxError> {
        let partition = batch.partition().clone();
        let content = Answer {
            request: request_id.to_owned(),
            result: serde_json::to_string(&answer)?,
        };
        let ttl = self.inner.lifetimes().answer_ttl();
        let stored = MessageDocument::answer(partition.clone(), content, Some(ttl));
        batch.add(stored.create())?;
        let Err(error) = self.commit(batch).await else {
            return Ok(answer);
        };
        // The answer decides, whichever document was refused.
        match self.answer(partition, request_id).await {
            Ok(Some(first)) => Ok(first),
            Err(invalid @ OutboxError::Answer(_)) => Err(invalid),
            _ => Err(error),
        }
    }

    /// Returns the stored answer to a request; `None` if the request was not committed, or its
    /// answer is older than the retention.
    ///
    /// # Errors
    /// When the read fails, or the answer has another type.
    pub async fn answer<R: DeserializeOwned>(
        &self,
        partition: impl Into<PartitionKey>,
        request_id: &str,
    ) -> Result<Option<R>, OutboxError> {
        let key = MessageDocumentKey::answer(request_id);
        let latest = self.inner.container.latest_committed();
        let read = latest.read(key.in_partition(partition)).await?;
        let Some(stored) = read else { return Ok(None) };
        match stored.document.content() {
            Content::Answer(answer) => Ok(Some(serde_json::from_str(&answer.result)?)),
            other => Err(OutboxError::Answer(serde_json::Error::custom(format!(
                "the document of the answer is of kind `{}`",
                other.kind()
            )))),
        }
    }
}
