//! The trait of payload codecs.

use std::fmt;

/// The longest key id, in bytes.
const MAX_KEY_ID: usize = 64;

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
    fn encode(&self, payload: &str) -> Result<Option<EncodedPayload>, PayloadError>;

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
pub struct EncodedPayload {
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

/// Checks that a key id can be stored.
pub(super) fn check_key_id(key: &str) -> Result<(), PayloadError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if key.is_empty() || key.len() > MAX_KEY_ID || !key.bytes().all(is_allowed) {
        return Err(PayloadError::Damaged(format!(
            "`{key}` is not a key id: 1 to {MAX_KEY_ID} letters, digits, `-`, `_` or `.`"
        )));
    }
    Ok(())
}
