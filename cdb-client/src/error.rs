//! The one error of this crate: what kind, and everything that is known about the failed call.
//!
//! A kind per thing that a caller does differently; predicates for the frequent questions. Never holds a key, a signed
//! header, or a document.

use std::fmt;
use std::time::Duration;

use crate::operation::OperationKind;
use crate::status::Status;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed. See [`ErrorKind`] and the predicates.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::order;
/// # shop::with_shop(async |shop| {
/// shop.create(&order(1)).await?;
/// match shop.create(&order(1)).await {
///     Err(error) if error.is_conflict() => println!("it was there"),
///     Err(error) if error.is_ambiguous() => println!("read it to find out"),
///     Err(error) if error.is_transient() => println!("again in {:?}", error.retry_after()),
///     Err(error) => return Err(error.into()),
///     Ok(written) => println!("{} RU", written.charge),
/// }
/// # Ok(()) }).unwrap();
/// ```
pub struct Error(Box<Details>);

struct Details {
    kind: ErrorKind,
    message: String,
    call: Option<CallDetails>,
    operation_index: Option<usize>,
    source: Option<Source>,
}

/// What was done, and how hard it was tried.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, order};
/// # shop::with_shop(async |shop| {
/// let error = shop.replace(&order(1)).await.unwrap_err(); // there is none
/// let call = error.call().expect("it was sent");
/// assert_eq!((call.attempts, call.status.map(|status| status.code)), (1, Some(404)));
/// println!("{} on {}: {}", call.operation, call.resource, call.activity_id);
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallDetails {
    /// The kind of request.
    pub operation: OperationKind,
    /// The resource's link, such as `dbs/db/colls/c`.
    pub resource: String,
    /// The last answer, if there was one.
    pub status: Option<Status>,
    /// Names the last attempt to Microsoft's support.
    pub activity_id: String,
    /// How often it was sent.
    pub attempts: u32,
    /// From the first attempt to giving up.
    pub elapsed: Duration,
    /// What the service asked to wait.
    pub retry_after: Option<Duration>,
    /// Request units that all attempts cost together.
    pub charge: f64,
    /// Whether some attempt of a write may have taken effect although no answer said so.
    pub ambiguous: bool,
}

/// What a caller can tell apart.
///
/// ```
/// use cdb_client::{CosmosClient, ErrorKind};
///
/// let error = CosmosClient::builder("nowhere").build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Configuration);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something given to the client cannot work: endpoint, key, name, option.
    Configuration,
    /// The server's certificate is not trusted. Nothing was sent.
    Untrusted,
    /// No authorization could be made, or the service refused it (401).
    Unauthorized,
    /// The identity lacks a right, or the account forbids it (403).
    Forbidden,
    /// The item, container or database does not exist (404).
    NotFound,
    /// An item with this id or unique key exists (409).
    Conflict,
    /// The ETag or the patch's condition no longer holds (412).
    PreconditionFailed,
    /// The item, batch or answer exceeds a limit (413).
    TooLarge,
    /// More request units asked for than there are (429), until the deadline.
    Throttled,
    /// The physical partition was split or merged while it was being read; ask again from the start.
    PartitionSplit,
    /// The service did not take the request in time (408, 410, 449, 5xx, no connection, no answer).
    Unavailable,
    /// The service says that the request is wrong (400).
    BadRequest,
    /// A document, patch or batch cannot be written.
    Encode,
    /// A stored document does not fit its type.
    Decode,
    /// The answer is not what the protocol promises.
    Protocol,
    /// The live container is not the one that the model describes.
    ContainerMismatch,
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            message: message.into(),
            call: None,
            operation_index: None,
            source: None,
        }))
    }

    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, message)
    }

    /// That a credential has no authorization to give, for implementations of
    /// [`Credential`](crate::Credential): the call fails with it, unsent. `message` says why, never with a secret in it.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unauthorized, message)
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
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

    pub(crate) fn with_operation_index(mut self, index: usize) -> Self {
        self.0.operation_index = Some(index);
        self
    }

    /// The same failure of one operation of a request that failed as a whole. The source stays behind: it cannot be
    /// shared.
    pub(crate) fn for_operation(&self, index: usize) -> Self {
        Self(Box::new(Details {
            kind: self.0.kind,
            message: self.0.message.clone(),
            call: self.0.call.clone(),
            operation_index: Some(index),
            source: None,
        }))
    }

    /// The same failure after an earlier attempt that may have taken effect.
    pub(crate) fn into_ambiguous(mut self) -> Self {
        if let Some(call) = &mut self.0.call {
            call.ambiguous = true;
        }
        self
    }

    pub(crate) fn with_context(mut self, context: &str) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// What kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The call that failed; `None` when nothing was sent.
    pub fn call(&self) -> Option<&CallDetails> {
        self.0.call.as_ref()
    }

    /// Which operation of a batch was the failed_operation, counted from 0.
    pub fn operation_index(&self) -> Option<usize> {
        self.0.operation_index
    }

    /// Status and sub-status of the last answer, or of the failed_operation in a batch.
    pub fn status(&self) -> Option<Status> {
        self.0.call.as_ref().and_then(|call| call.status)
    }

    /// The item, container or database does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// An item with this id, or with this unique key, exists.
    pub fn is_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict
    }

    /// The ETag or the patch's condition no longer holds.
    pub fn is_precondition_failed(&self) -> bool {
        self.kind() == ErrorKind::PreconditionFailed
    }

    /// A limit of the service is exceeded.
    pub fn is_too_large(&self) -> bool {
        self.kind() == ErrorKind::TooLarge
    }

    /// The request units did not suffice, within the deadline.
    pub fn is_throttled(&self) -> bool {
        self.kind() == ErrorKind::Throttled
    }

    /// The partition was split or merged in the middle of reading; ask again from the start.
    pub fn is_partition_split(&self) -> bool {
        self.kind() == ErrorKind::PartitionSplit
    }

    /// A write was sent and may have taken effect. Read the document and compare before deciding.
    pub fn is_ambiguous(&self) -> bool {
        self.0.call.as_ref().is_some_and(|call| call.ambiguous)
    }

    /// The same call may succeed later, unchanged.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Throttled | ErrorKind::Unavailable | ErrorKind::PartitionSplit
        )
    }

    /// What the service asked to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.call.as_ref().and_then(|call| call.retry_after)
    }
}

impl ErrorKind {
    /// The kind of a refusal.
    pub(crate) fn of_status(status: Status) -> Self {
        match status.code {
            400 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 if status == Status::SESSION_NOT_AVAILABLE => Self::Unavailable,
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 if status == Status::RANGE_GONE => Self::PartitionSplit,
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
        let Some(call) = &self.0.call else {
            return f.write_str(&self.0.message);
        };
        write!(
            f,
            "{} at `{}`: {}",
            call.operation, call.resource, self.0.message
        )?;
        if let Some(index) = self.0.operation_index {
            write!(f, " (operation {index} of the batch)")?;
        }
        if let Some(status) = call.status {
            write!(f, " (status {status})")?;
        }
        if call.ambiguous {
            f.write_str(" (it may have taken effect all the same)")?;
        }
        write!(
            f,
            " after {} attempt{} in {} ms, activity {}",
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
            .field("operation_index", &self.0.operation_index)
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
