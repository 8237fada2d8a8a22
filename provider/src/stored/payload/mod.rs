//! Payload codecs: inputs, results, error messages, events, custom status and key-values are encoded
//! before they are stored, and decoded when they are read.
//!
//! Encoded are texts that orchestrations, activities and clients pass. Names and ids stay readable,
//! because queries, logs and operators need them: names of orchestrations, activities, events and
//! keys, instance ids, sessions, tags and times. Documents of your own types are not encoded.
//!
//! ```
//! use std::sync::Arc;
//! use cdb_provider::payload::{EncodedPayload, PayloadCodec, PayloadError};
//! use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
//!
//! /// A codec for tests. Reverses the bytes.
//! #[derive(Debug)]
//! struct Backwards;
//!
//! impl PayloadCodec for Backwards {
//!     fn name(&self) -> &str {
//!         "backwards"
//!     }
//!
//!     fn encode(&self, payload: &str) -> Result<Option<EncodedPayload>, PayloadError> {
//!         let bytes = payload.bytes().rev().collect();
//!         Ok(Some(EncodedPayload { key: "k1".to_owned(), bytes }))
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

mod codec;
#[cfg(feature = "codecs")]
mod compression;
#[cfg(feature = "codecs")]
mod encryption;
mod fields;
mod payloads;

use std::sync::Arc;

pub use codec::{EncodedPayload, PayloadCodec, PayloadError};
#[cfg(feature = "codecs")]
pub use compression::Compression;
#[cfg(feature = "codecs")]
pub use encryption::Encryption;
pub(crate) use payloads::Payloads;

/// The variable that holds the keys of `Encryption`.
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
