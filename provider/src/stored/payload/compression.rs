//! Compression of payloads.

use super::codec::{EncodedPayload, PayloadCodec, PayloadError};

/// The key id of compressed payloads.
const LZ4: &str = "lz4";

/// The size below which a payload is not compressed, in bytes: base64 and the mark would take what
/// compression gains.
pub(super) const SHORT: usize = 128;

/// The most bytes that one byte of LZ4 expands to. A larger announced size is not believed.
const MAX_RATIO: usize = 255;

/// Compresses payloads with LZ4. Short ones, and those that do not shrink, are stored as they are.
///
/// ```
/// use std::sync::Arc;
/// use cdb_provider::CosmosDBProviderConfig;
/// use cdb_provider::payload::{Compression, PayloadCodec};
///
/// let config = CosmosDBProviderConfig {
///     payload_codec: Some(Arc::new(Compression)),
///     ..Default::default()
/// };
/// # drop(config);
/// let report = r#"{"line": 1, "state": "delivered"}"#.repeat(1000);
/// let stored = Compression.encode(&report)?.expect("it shrinks");
/// assert!(stored.bytes.len() < report.len() / 100);
/// assert_eq!(Compression.decode(&stored.key, &stored.bytes)?, report);
/// # Ok::<(), cdb_provider::payload::PayloadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(docsrs, doc(cfg(feature = "codecs")))]
pub struct Compression;

impl PayloadCodec for Compression {
    fn name(&self) -> &'static str {
        LZ4
    }

    fn encode(&self, payload: &str) -> Result<Option<EncodedPayload>, PayloadError> {
        if payload.len() < SHORT {
            return Ok(None);
        }
        let bytes = compress(payload.as_bytes());
        let is_shorter = bytes.len() / 3 * 4 + 32 < payload.len();
        let key = LZ4.to_owned();
        Ok(is_shorter.then_some(EncodedPayload { key, bytes }))
    }

    fn decode(&self, key: &str, bytes: &[u8]) -> Result<String, PayloadError> {
        if key != LZ4 {
            return Err(PayloadError::Unavailable(format!(
                "key `{key}` is not one of `Compression`"
            )));
        }
        text(decompress(bytes)?)
    }
}

pub(super) fn compress(payload: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress_prepend_size(payload)
}

pub(super) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, PayloadError> {
    let damaged =
        |reason| PayloadError::Damaged(format!("a compressed payload is damaged: {reason}"));
    let announced = lz4_flex::block::uncompressed_size(bytes);
    let (size, block) = announced.map_err(|error| damaged(error.to_string()))?;
    if size > block.len().saturating_mul(MAX_RATIO) {
        return Err(damaged(format!("it announces {size} bytes")));
    }
    lz4_flex::block::decompress(block, size).map_err(|error| damaged(error.to_string()))
}

pub(super) fn text(bytes: Vec<u8>) -> Result<String, PayloadError> {
    String::from_utf8(bytes).map_err(|_| PayloadError::Damaged("a payload is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_announces_gigabytes_is_damaged() {
        let mut bytes = compress(&[b'x'; 1000]);
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = decompress(&bytes).unwrap_err().to_string();
        assert!(error.contains("it announces 4294967295 bytes"), "{error}");
    }

    #[test]
    fn payloads_that_do_not_shrink_are_not_encoded() {
        let random: String = (0..20).map(|_| uuid::Uuid::new_v4().to_string()).collect();
        for payload in ["", "short", &random] {
            assert_eq!(Compression.encode(payload), Ok(None));
        }
    }
}
