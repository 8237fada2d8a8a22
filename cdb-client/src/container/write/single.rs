//! One operation in one request.

use bytes::Bytes;
use cdb_model::container::MemberOf;
use cdb_model::document::{Create, Delete, DocumentAddress, KnownPartition, Replace, Upsert};
use cdb_model::operation::{BatchOperation, Operation, PreparedOperation};
use cdb_model::value::{AnyPartitionKey, ItemId};
use cdb_model::{Container, Document, ETag, PartitionKey, Patch, Stored};
use http::Method;
use serde_json::value::RawValue;

use crate::container::handle::ContainerClient;
use crate::container::point::{Written, stored_in};
use crate::error::{Error, RequestKind, Result};
use crate::protocol::{Accepted, JSON, Repeat, Request, header};

/// Spelled as in Microsoft's documentation.
const PATCH: &str = "application/json_patch+json";

/// An operation that [`ContainerClient::run`] sends.
pub trait SingleOperation: Operation {
    /// What its execution returns.
    type Answer: FromExecuted;
}

impl<D: Document> SingleOperation for Create<D> {
    type Answer = Written;
}

impl<D: Document> SingleOperation for Upsert<D> {
    type Answer = Written;
}

impl<D: Document> SingleOperation for Replace<D> {
    type Answer = Written;
}

impl<D: Document, P: KnownPartition> SingleOperation for Patch<D, DocumentAddress<D, P>> {
    type Answer = Written;
}

impl<D: Document, P: KnownPartition> SingleOperation for Delete<D, P> {
    type Answer = ();
}

/// The result of an operation that took place.
pub trait FromExecuted: Sized {
    #[doc(hidden)]
    fn from_executed(executed: Executed) -> Result<Self>;
}

/// Cannot be named outside this crate, so that no other crate implements [`FromExecuted`].
#[derive(Debug)]
pub struct Executed {
    id: ItemId,
    /// `None` for a deletion whose answer was lost.
    accepted: Option<Accepted>,
}

impl FromExecuted for Written {
    fn from_executed(executed: Executed) -> Result<Self> {
        let accepted = executed.accepted;
        let accepted = accepted.ok_or_else(|| Error::protocol("a write without an answer"))?;
        Ok(Self {
            id: executed.id,
            etag: accepted.etag()?,
        })
    }
}

impl FromExecuted for () {
    fn from_executed(_: Executed) -> Result<Self> {
        Ok(())
    }
}

impl<C: Container> ContainerClient<C> {
    /// Executes one operation. A create, upsert, replace or patch returns what was
    /// [`Written`]; a delete returns nothing.
    ///
    /// ```
    /// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
    /// use cdb_client::ContainerClient;
    /// use shop::{Order, OrderKey, Shop};
    ///
    /// async fn pay(shop: &ContainerClient<Shop>) -> cdb_client::Result<()> {
    ///     let open = Order::STATUS.eq("open");
    ///     let paid = OrderKey::new("ann", 1).patch().set(Order::STATUS, "paid");
    ///     match shop.run(paid.when(open)).await {
    ///         Err(error) if error.is_precondition_failed() => println!("it was not open"),
    ///         paid => println!("version {}", paid?.etag),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// - [`is_conflict`](Error::is_conflict): the document to create exists.
    /// - [`is_unique_key_conflict`](Error::is_unique_key_conflict): another document has its unique
    ///   key.
    /// - [`is_not_found`](Error::is_not_found): the document to replace, patch or delete does not
    ///   exist.
    /// - [`is_precondition_failed`](Error::is_precondition_failed): the document has another version
    ///   than the required one, or a condition of the patch does not hold.
    /// - [`is_ambiguous`](Error::is_ambiguous): the operation may have been executed. Not for those
    ///   that are sent again after a lost answer: upserts, replaces and deletes without a version,
    ///   and patches that only set.
    pub async fn run<O>(&self, operation: O) -> Result<O::Answer>
    where
        O: SingleOperation,
        O::Document: MemberOf<C>,
        O::Partition: KnownPartition,
    {
        let (id, request) = self.request_of(operation)?;
        // Boxed, so that programs have small futures.
        let accepted = Box::pin(self.execute_write(&id, request)).await?;
        O::Answer::from_executed(Executed { id, accepted })
    }

    /// Patches a document, and returns it as it is afterwards. As [`run`](Self::run), and for the same request units: the
    /// service sends the document back instead of its version alone.
    ///
    /// # Errors
    /// As [`run`](Self::run). Also when the document is not a `D`; it is patched then.
    pub async fn patch_and_read<D, P>(
        &self,
        patch: Patch<D, DocumentAddress<D, P>>,
    ) -> Result<Stored<D>>
    where
        D: MemberOf<C>,
        P: KnownPartition,
    {
        let (id, mut request) = self.request_of(patch)?;
        request.headers.remove(header::PREFER);
        let accepted = Box::pin(self.execute_write(&id, request)).await?;
        let accepted = accepted.ok_or_else(|| Error::protocol("a write without an answer"))?;
        stored_in::<C, D>(&accepted)
    }

    /// Creates a document whose id only its writer can have chosen, such as an id with a random
    /// part. An existing item with this id is the same document, so this request is retried after a
    /// lost answer, unlike [`Create`]. Returns `None` when the document existed, perhaps from an
    /// earlier attempt.
    ///
    /// # Errors
    /// When the service refuses the document or cannot be reached;
    /// [`is_ambiguous`](Error::is_ambiguous) when the document may have been created.
    pub async fn create_if_missing<D: MemberOf<C>>(&self, document: &D) -> Result<Option<Written>> {
        let (id, request) = self.request_of(document.create())?;
        match self
            .execute_write(&id, request.repeat(Repeat::Always))
            .await
        {
            Ok(accepted) => Written::from_executed(Executed { id, accepted }).map(Some),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates or replaces a document that is given as JSON, whatever its type. For tools that copy
    /// documents: the container may be another than `C`, with another partition key.
    ///
    /// # Errors
    /// When the service refuses the document, for example because its partition key is another than
    /// `partition`.
    pub async fn upsert_json(&self, partition: &AnyPartitionKey, json: &str) -> Result<()> {
        let body = Bytes::copy_from_slice(json.as_bytes());
        let request = self
            .context
            .items_request(RequestKind::Upsert, JSON, body)
            .header(header::PREFER, "return=minimal")
            .header(header::IS_UPSERT, "True")
            .repeat(Repeat::Always)
            .in_any_partition(partition)?;
        self.context.send(&request).await.map(drop)
    }

    async fn execute_write(&self, id: &ItemId, request: Request) -> Result<Option<Accepted>> {
        // A second deletion finds nothing, and that is the result of the first.
        let may_be_gone = request.kind == RequestKind::Delete && request.repeat == Repeat::Always;
        let error = match self.context.send(&request).await {
            Err(error) if may_be_gone && error.is_missing_after_doubt() => return Ok(None),
            Err(error) => error,
            sent => return sent.map(Some),
        };
        let is_create = request.kind == RequestKind::Create;
        Err(match &request.partition {
            Some(partition) => self.with_conflict(error, partition, id, is_create).await,
            None => error,
        })
    }

    fn request_of<O: Operation>(&self, operation: O) -> Result<(ItemId, Request)>
    where
        O::Document: MemberOf<C>,
        O::Partition: KnownPartition,
    {
        let prepared = operation.prepare::<C>().map_err(Error::encode)?;
        let PreparedOperation {
            id,
            partition,
            operation,
            ..
        } = prepared.written_at(self.now());
        let is_deletion = matches!(operation, BatchOperation::Delete { if_match: None, .. });
        let repeat = if is_deletion || operation.is_repeatable() {
            Repeat::Always
        } else {
            Repeat::IfNotExecuted
        };
        let partition = partition.into_key();
        Self::check_key(&partition)?;
        let request = self.write_request(&id, &partition, operation)?;
        Ok((id, request.repeat(repeat)))
    }

    fn write_request(
        &self,
        id: &ItemId,
        partition: &PartitionKey,
        operation: BatchOperation,
    ) -> Result<Request> {
        let request = match operation {
            BatchOperation::Create { resource_body } => {
                self.document_request(RequestKind::Create, resource_body)
            }
            BatchOperation::Upsert {
                resource_body,
                if_match,
            } => self
                .document_request(RequestKind::Upsert, resource_body)
                .header(header::IS_UPSERT, "True")
                .if_match_some(if_match.as_ref())?,
            BatchOperation::Replace {
                resource_body,
                if_match,
                ..
            } => {
                let mut request = self.document_request(RequestKind::Replace, resource_body);
                request.method = Method::PUT;
                request.resource = self.context.resource.item(id.as_str())?;
                request.if_match_some(if_match.as_ref())?
            }
            BatchOperation::Patch {
                resource_body,
                if_match,
                ..
            } => self
                .item_request(RequestKind::Patch, Method::PATCH, id)?
                .header(header::PREFER, "return=minimal")
                .json(PATCH, &resource_body)?
                .if_match_some(if_match.as_ref())?,
            BatchOperation::Delete { if_match, .. } => self
                .item_request(RequestKind::Delete, Method::DELETE, id)?
                .if_match_some(if_match.as_ref())?,
            operation => {
                return Err(Error::configuration(format!("{operation:?} is no write")));
            }
        };
        request.in_partition(partition)
    }

    fn document_request(&self, kind: RequestKind, json: Box<RawValue>) -> Request {
        let body = Bytes::from(String::from(Box::<str>::from(json)));
        self.context
            .items_request(kind, JSON, body)
            .header(header::PREFER, "return=minimal")
    }
}

impl Request {
    fn if_match_some(self, etag: Option<&ETag>) -> Result<Self> {
        match etag {
            Some(etag) => self.if_match(etag),
            None => Ok(self),
        }
    }
}
