//! Payload codecs: inputs, results, error messages, events, custom status and key-values are encoded
//! before they are stored, and decoded when they are read.
//!
//! Encoded are texts that orchestrations, activities and clients pass. Names and ids stay readable,
//! because queries, logs and operators need them: names of orchestrations, activities, events and
//! keys, instance ids, sessions, tags and times. Documents of your own types are not encoded.
//!
//! ```
//! use std::sync::Arc;
//! use cdb_provider::payload::{Encoded, PayloadCodec, PayloadError};
//! use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
//!
//! /// A codec for tests: readable to nobody who cannot read backwards.
//! #[derive(Debug)]
//! struct Backwards;
//!
//! impl PayloadCodec for Backwards {
//!     fn name(&self) -> &str {
//!         "backwards"
//!     }
//!
//!     fn encode(&self, payload: &str) -> Result<Option<Encoded>, PayloadError> {
//!         let bytes = payload.bytes().rev().collect();
//!         Ok(Some(Encoded { key: "k1".to_owned(), bytes }))
//!     }
//!
//!     fn decode(&self, _key: &str, bytes: &[u8]) -> Result<String, PayloadError> {
//!         let bytes = bytes.iter().rev().copied().collect();
//!         String::from_utf8(bytes).map_err(|error| PayloadError::Damaged(error.to_string()))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let emulator = cdb_emulator::Emulator::start().await?;
//! # let account = CosmosDBProviderConfig::from_connection_string(&emulator.connection_string())?;
//! let config = CosmosDBProviderConfig { payload_codec: Some(Arc::new(Backwards)), ..account };
//! let store = CosmosDBProvider::new_with_config(config).await?;
//! # store.cleanup().await?;
//! # Ok(()) }
//! ```

#[cfg(feature = "codecs")]
mod compression;
#[cfg(feature = "codecs")]
mod encryption;
mod fields;
mod payloads;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "codecs")]
pub use compression::Compression;
#[cfg(feature = "codecs")]
pub use encryption::Encryption;
pub(crate) use payloads::Payloads;

/// The variable that holds the keys of [`Encryption`].
pub(crate) const KEYS: &str = "COSMOS_PAYLOAD_KEYS";

/// Returns the codec with these keys.
#[cfg(feature = "codecs")]
pub(crate) fn from_keys(keys: &str) -> Result<Arc<dyn PayloadCodec>, PayloadError> {
    match Encryption::parse(keys) {
        Ok(encryption) => Ok(Arc::new(encryption)),
        Err(error) => Err(PayloadError::Damaged(format!("{KEYS}: {error}"))),
    }
}

/// Fails, because payloads would be stored as plaintext.
#[cfg(not(feature = "codecs"))]
pub(crate) fn from_keys(_: &str) -> Result<Arc<dyn PayloadCodec>, PayloadError> {
    Err(PayloadError::Damaged(format!(
        "{KEYS} is set, and cdb-provider is built without encryption; enable its feature `codecs`"
    )))
}

/// Encodes payloads before they are stored, and decodes them when they are read. Called for every
/// payload of every turn and activity, so it must not block: a codec that asks a key service caches
/// the keys.
pub trait PayloadCodec: fmt::Debug + Send + Sync {
    /// The name that the schema document of a container notes. The container is opened by codecs of
    /// this name only.
    fn name(&self) -> &str;

    /// Encodes a payload. `None` stores the payload as it is.
    ///
    /// # Errors
    /// With [`PayloadError::Unavailable`] the runtime repeats the call later.
    fn encode(&self, payload: &str) -> Result<Option<Encoded>, PayloadError>;

    /// Decodes the bytes that [`encode`](Self::encode) returned with this key id, perhaps in
    /// another process or by an earlier version.
    ///
    /// # Errors
    /// With [`PayloadError::Unavailable`] the work is left in its queue and tried again later. With
    /// [`PayloadError::Damaged`] it is tried ten times, then its instance fails.
    fn decode(&self, key: &str, bytes: &[u8]) -> Result<String, PayloadError>;
}

/// An encoded payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The id of the key: 1 to 64 letters, digits, `-`, `_` or `.`. Stored beside the bytes.
    pub key: String,
    /// The encoded payload. Stored as base64, which adds a third.
    pub bytes: Vec<u8>,
}

/// The reason why a payload cannot be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The key is missing at present, or the codec cannot work at present.
    #[error("{0}")]
    Unavailable(String),
    /// The payload is damaged, or was encoded by something else.
    #[error("{0}")]
    Damaged(String),
}
