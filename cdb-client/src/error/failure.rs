//! The error type of this crate: its kind, and everything known about the failed call.
//!
//! Each kind is a case that callers handle differently; predicates answer the frequent questions.
//! An error never contains a key, a signed header, or a document.

use std::fmt;
use std::time::Duration;

use cdb_model::value::KeyTooLong;

use crate::error::{RequestKind, ResponseStatus};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed. See [`ErrorKind`] and the predicates.
///
/// ```
/// use cdb_client::Result;
/// use cdb_client::write::Written;
///
/// fn report(created: Result<Written>) -> Result<()> {
///     match created {
///         Err(error) if error.is_conflict() => println!("it exists"),
///         Err(error) if error.is_ambiguous() => println!("read it to find out whether it exists"),
///         Err(error) if error.is_transient() => println!("try again in {:?}", error.retry_after()),
///         Err(error) => return Err(error),
///         Ok(written) => println!("version {}", written.etag),
///     }
///     Ok(())
/// }
/// ```
pub struct Error(Box<Details>);

struct Details {
    kind: ErrorKind,
    message: String,
    call: Option<CallDetails>,
    /// The operation of a batch or bulk that failed.
    operation: Option<FailedOperation>,
    conflict_cause: Option<ConflictCause>,
    source: Option<Source>,
}

/// What a conflict is about. The service answers both with 409.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictCause {
    /// Another document has the id.
    Id,
    /// Another document of the logical partition has the unique key.
    UniqueKey,
}

#[derive(Clone, Debug)]
struct FailedOperation {
    index: usize,
    /// The id of its document; empty until the batch is known.
    id: String,
}

/// The failed call and its attempts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallDetails {
    /// The kind of request.
    pub operation: RequestKind,
    /// The link of the resource, such as `dbs/db/colls/c`.
    pub resource: String,
    /// The status of the last answer; `None` when the last attempt got none.
    pub status: Option<ResponseStatus>,
    /// The id under which Microsoft's support finds the last attempt.
    pub activity_id: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The time from the first attempt to the failure.
    pub elapsed: Duration,
    /// The delay that the service asked for before the next attempt.
    pub retry_after: Option<Duration>,
    /// Request units of all attempts together.
    pub charge: f64,
    /// Whether an attempt of a write may have taken effect although no answer confirmed it.
    pub ambiguous: bool,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting or argument is invalid: endpoint, key, name, option.
    Configuration,
    /// The server's certificate is not trusted. Nothing was sent.
    Untrusted,
    /// The credential has no authorization, or the service refused it (401).
    Unauthorized,
    /// The identity lacks a right, the account forbids it, or the logical partition is full (403).
    Forbidden,
    /// The item, container or database does not exist (404).
    NotFound,
    /// An item with this id or unique key exists (409).
    Conflict,
    /// The ETag or the patch's condition no longer holds (412).
    PreconditionFailed,
    /// The item, batch or answer exceeds a limit (413).
    TooLarge,
    /// The request units did not suffice (429) until the deadline.
    Throttled,
    /// The physical partition that the request names was split or merged during the read; start the
    /// read again.
    PartitionSplit,
    /// The service did not process the request in time (408, 410, 449, 5xx, no connection, no
    /// answer).
    Unavailable,
    /// The request is invalid (400), or has a partition key that is too long and was not sent.
    BadRequest,
    /// A document, patch or batch cannot be serialized.
    Encode,
    /// A stored document does not match its type.
    Decode,
    /// The answer violates the protocol.
    Protocol,
    /// The live container differs from its model.
    ContainerDiffers,
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            message: message.into(),
            call: None,
            operation: None,
            conflict_cause: None,
            source: None,
        }))
    }

    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, message)
    }

    /// Returns an error for a [`Credential`](crate::credential::Credential) that has no authorization: the call
    /// fails with it and is not sent. `message` says why and contains no secret.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unauthorized, message)
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    pub(crate) fn key_too_long(source: KeyTooLong) -> Self {
        Self::new(ErrorKind::BadRequest, source.to_string()).with_source(source)
    }

    pub(crate) fn encode(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = source.to_string();
        Self::new(ErrorKind::Encode, message).with_source(source)
    }

    pub(crate) fn decode(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = source.to_string();
        Self::new(ErrorKind::Decode, message).with_source(source)
    }

    pub(crate) fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn with_call(mut self, call: CallDetails) -> Self {
        self.0.call = Some(call);
        self
    }

    pub(crate) fn with_operation(mut self, index: usize) -> Self {
        let id = String::new();
        self.0.operation = Some(FailedOperation { index, id });
        self
    }

    /// Names the document of the operation that failed.
    pub(crate) fn with_operation_id<'a>(
        mut self,
        id: impl FnOnce(usize) -> Option<&'a str>,
    ) -> Self {
        if let Some(operation) = &mut self.0.operation {
            id(operation.index)
                .unwrap_or_default()
                .clone_into(&mut operation.id);
        }
        self
    }

    /// Copies the failure of a whole request for one of its operations.
    pub(crate) fn for_operation(&self, index: usize) -> Self {
        self.copy().with_operation(index)
    }

    /// Copies the failure of a request for another caller. The copy has no source, which cannot be
    /// cloned.
    pub(crate) fn copy(&self) -> Self {
        Self(Box::new(Details {
            kind: self.0.kind,
            message: self.0.message.clone(),
            call: self.0.call.clone(),
            operation: None,
            conflict_cause: self.0.conflict_cause,
            source: None,
        }))
    }

    /// Marks the error ambiguous: an earlier attempt may have taken effect.
    pub(crate) fn into_ambiguous(mut self) -> Self {
        if let Some(call) = &mut self.0.call {
            call.ambiguous = true;
        }
        self
    }

    pub(crate) fn with_conflict_cause(mut self, cause: ConflictCause) -> Self {
        self.0.conflict_cause = Some(cause);
        self
    }

    /// Whether the service says that a unique key is taken. The id may be taken, too.
    pub(crate) fn names_unique_key(&self) -> bool {
        self.status() == Some(ResponseStatus::UNIQUE_KEY_TAKEN)
            || self.0.message.to_ascii_lowercase().contains("unique index")
    }

    /// Replaces a conflict by the failure of the read that was to find out what it is about.
    pub(crate) fn into_read_failure(mut self, unread: Self) -> Self {
        self.0.kind = unread.kind();
        self.0.message = format!(
            "the id or a unique key is taken, and which of them could not be read ({}): {}",
            unread.0.message, self.0.message
        );
        self.with_source(unread)
    }

    pub(crate) fn with_context(mut self, context: &str) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the call that failed; `None` when nothing was sent.
    pub fn call(&self) -> Option<&CallDetails> {
        self.0.call.as_ref()
    }

    /// Returns the index of the operation that failed its batch, counted from 0.
    pub fn operation_index(&self) -> Option<usize> {
        self.0.operation.as_ref().map(|operation| operation.index)
    }

    /// Returns status and sub-status of the last answer; of a batch, those of the operation that
    /// failed it.
    pub fn status(&self) -> Option<ResponseStatus> {
        self.0.call.as_ref().and_then(|call| call.status)
    }

    /// Whether the item, container or database does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether an item with this id exists: an earlier attempt may have created it. `false` for a
    /// [conflict of unique keys](Self::is_unique_key_conflict), after which no item has the id.
    pub fn is_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict && !self.is_unique_key_conflict()
    }

    /// Whether another item of the logical partition has the same unique key, and no item has the
    /// id. The service answers 409 to both, so in a container that may have unique keys the client
    /// reads the id after a refused creation.
    pub fn is_unique_key_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict
            && match self.0.conflict_cause {
                Some(cause) => cause == ConflictCause::UniqueKey,
                None => self.names_unique_key(),
            }
    }

    /// Whether the ETag or the condition of the patch no longer holds.
    pub fn is_precondition_failed(&self) -> bool {
        self.kind() == ErrorKind::PreconditionFailed
    }

    /// Whether the request or answer exceeds a limit of the service.
    pub fn is_too_large(&self) -> bool {
        self.kind() == ErrorKind::TooLarge
    }

    /// Whether the request units did not suffice until the deadline.
    pub fn is_throttled(&self) -> bool {
        self.kind() == ErrorKind::Throttled
    }

    /// Whether the partition was split or merged during the read; start the read again.
    pub fn is_partition_split(&self) -> bool {
        self.kind() == ErrorKind::PartitionSplit
    }

    /// Whether a write may have taken effect. Read the document and compare before deciding.
    pub fn is_ambiguous(&self) -> bool {
        self.0.call.as_ref().is_some_and(|call| call.ambiguous)
    }

    /// Whether a deletion found no item after an earlier attempt with an unknown outcome: that attempt has
    /// deleted it.
    pub(crate) fn is_missing_after_doubt(&self) -> bool {
        self.status() == Some(ResponseStatus::ITEM_NOT_FOUND) && self.is_ambiguous()
    }

    /// Whether the service or the credential denied the identity: 401, 403 other than 403/1014, or no
    /// authorization. A wrong key stays wrong. The rights of a working program can return: after the
    /// rotation of a key, or when a role has reached all nodes of the service.
    pub fn is_denied(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unauthorized | ErrorKind::Forbidden)
            && self.status() != Some(ResponseStatus::PARTITION_FULL)
    }

    /// Whether the same call may succeed later, unchanged. Not after [`is_denied`](Self::is_denied),
    /// which may need an administrator.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Throttled | ErrorKind::Unavailable | ErrorKind::PartitionSplit
        )
    }

    /// Returns the delay that the service asked for before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.call.as_ref().and_then(|call| call.retry_after)
    }
}

impl ErrorKind {
    /// Returns the kind of an error status.
    pub(crate) fn of_status(status: ResponseStatus) -> Self {
        match status.code {
            400 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 if status == ResponseStatus::SESSION_NOT_AVAILABLE => Self::Unavailable,
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 if status == ResponseStatus::RANGE_GONE || status.is_moving() => {
                Self::PartitionSplit
            }
            412 => Self::PreconditionFailed,
            413 => Self::TooLarge,
            429 => Self::Throttled,
            408 | 410 | 449 | 500..=599 => Self::Unavailable,
            _ => Self::Protocol,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(call) = &self.0.call {
            write!(f, "{}: ", call.operation)?;
        }
        if let Some(FailedOperation { index, id }) = &self.0.operation {
            write!(f, "operation {index}")?;
            if !id.is_empty() {
                write!(f, ", `{id}`")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.0.message)?;
        let Some(call) = &self.0.call else {
            return Ok(());
        };
        if let Some(status) = call.status {
            write!(f, " (status {status})")?;
        }
        if call.ambiguous {
            f.write_str("; the write may have taken effect")?;
        }
        if !call.resource.is_empty() {
            write!(f, "; `{}`", call.resource)?;
        }
        write!(
            f,
            ", {} attempt{} in {} ms, activity {}",
            call.attempts,
            if call.attempts == 1 { "" } else { "s" },
            call.elapsed.as_millis(),
            call.activity_id
        )
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("call", &self.0.call)
            .field("operation", &self.0.operation)
            .field("conflict_cause", &self.0.conflict_cause)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source: &(dyn std::error::Error + Send + Sync + 'static) = self.0.source.as_deref()?;
        Some(source)
    }
}
