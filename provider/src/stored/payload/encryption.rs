//! Authenticated encryption of payloads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::{Aead as _, Generate as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use parking_lot::RwLock;

use super::codec::{EncodedPayload, PayloadCodec, PayloadError, check_key_id};
use super::compression::{SHORT, compress, decompress, text};

/// The bytes of a nonce, which precedes the ciphertext. Random ones of this length never repeat.
const NONCE: usize = 24;

/// The first byte of a plaintext.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

/// Encrypts payloads with XChaCha20-Poly1305. A changed byte, or the wrong key, is found when the
/// payload is decoded. Clones share their keys.
///
/// A key is rotated without a restart: add the new key in every process, then make it the current
/// one. Payloads of the old key stay readable while it is kept.
///
/// ```
/// use std::sync::Arc;
/// use cdb_provider::CosmosDBProviderConfig;
/// use cdb_provider::payload::Encryption;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (january, february) = ([1; 32], [2; 32]);
/// let encryption = Encryption::new("2026-01", &january)?;
/// let config = CosmosDBProviderConfig {
///     payload_codec: Some(Arc::new(encryption.clone())),
///     ..Default::default()
/// };
/// # drop(config);
///
/// // Later, in every process:
/// encryption.add_key("2026-02", &february)?;
/// // And when all of them have it:
/// encryption.set_current("2026-02")?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[cfg_attr(docsrs, doc(cfg(feature = "codecs")))]
pub struct Encryption {
    keys: Arc<RwLock<Keys>>,
    compressed: bool,
}

struct Keys {
    current: String,
    ciphers: BTreeMap<String, XChaCha20Poly1305>,
}

impl Encryption {
    /// Creates a codec with its first key of 256 random bits.
    ///
    /// # Errors
    /// Fails when `id` is not 1 to 64 letters, digits, `-`, `_` or `.`.
    pub fn new(id: &str, key: &[u8; 32]) -> Result<Self, PayloadError> {
        check_key_id(id)?;
        let ciphers = BTreeMap::from([(id.to_owned(), XChaCha20Poly1305::new(key.into()))]);
        let keys = Keys {
            current: id.to_owned(),
            ciphers,
        };
        Ok(Self {
            keys: Arc::new(RwLock::new(keys)),
            compressed: false,
        })
    }

    /// Reads keys from text: `id=base64`, separated by commas or line breaks. The first key
    /// encrypts. `openssl rand -base64 32` makes a key.
    ///
    /// # Errors
    /// Names the number of the malformed key, and shows no key.
    ///
    /// ```
    /// use cdb_provider::payload::Encryption;
    /// # let (new, old) = ("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    ///
    /// let encryption = Encryption::parse(&format!("2026-02={new},2026-01={old}"))?;
    /// # drop(encryption);
    /// # Ok::<(), cdb_provider::payload::PayloadError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, PayloadError> {
        let keys = text.split([',', '\n']).map(str::trim);
        let keys = keys.filter(|key| !key.is_empty()).enumerate();
        let mut encryption: Option<Self> = None;
        for (at, key) in keys {
            let (id, key) = parse_key(at + 1, key)?;
            match &encryption {
                Some(encryption) => encryption.add_key(id, &key)?,
                None => encryption = Some(Self::new(id, &key)?),
            }
        }
        let none = || PayloadError::Damaged("there is no key; write `id=base64`".to_owned());
        encryption.ok_or_else(none)
    }

    /// Compresses payloads of 128 bytes and more before they are encrypted. The length of a
    /// ciphertext then depends on the content: do not compress payloads in which texts of an
    /// attacker stand beside secrets.
    #[must_use]
    pub fn compressed(self) -> Self {
        Self {
            compressed: true,
            ..self
        }
    }

    /// Adds a key that decodes.
    ///
    /// # Errors
    /// Fails when `id` cannot be a key id, or is in use: payloads of the old key would be lost.
    pub fn add_key(&self, id: &str, key: &[u8; 32]) -> Result<(), PayloadError> {
        check_key_id(id)?;
        let mut keys = self.keys.write();
        if keys.ciphers.contains_key(id) {
            return Err(PayloadError::Damaged(format!("key `{id}` exists")));
        }
        let cipher = XChaCha20Poly1305::new(key.into());
        keys.ciphers.insert(id.to_owned(), cipher);
        Ok(())
    }

    /// Encodes with this key from now on. Every process must have it before.
    ///
    /// # Errors
    /// Fails when the key was not added.
    pub fn set_current(&self, id: &str) -> Result<(), PayloadError> {
        let mut keys = self.keys.write();
        if !keys.ciphers.contains_key(id) {
            return Err(PayloadError::Unavailable(format!("there is no key `{id}`")));
        }
        id.clone_into(&mut keys.current);
        Ok(())
    }

    /// Returns the id and the cipher of a key, or of the current one.
    fn cipher(&self, id: Option<&str>) -> Option<(String, XChaCha20Poly1305)> {
        let keys = self.keys.read();
        let id = id.unwrap_or(&keys.current);
        Some((id.to_owned(), keys.ciphers.get(id)?.clone()))
    }

    fn plaintext(&self, payload: &str) -> Vec<u8> {
        let payload = payload.as_bytes();
        if self.compressed && payload.len() >= SHORT {
            let compressed = compress(payload);
            if compressed.len() < payload.len() {
                return [&[COMPRESSED], &*compressed].concat();
            }
        }
        [&[PLAIN], payload].concat()
    }
}

/// Parses `id=base64`. An error shows only the number of the key: the text may be a key without id.
fn parse_key(number: usize, text: &str) -> Result<(&str, [u8; 32]), PayloadError> {
    let (id, key) = text.split_once('=').unwrap_or_default();
    let bytes = BASE64.decode(key.trim()).ok();
    match bytes.and_then(|bytes| bytes.try_into().ok()) {
        Some(key) => Ok((id.trim(), key)),
        None => Err(PayloadError::Damaged(format!(
            "key {number} is not `id=base64` with 32 bytes"
        ))),
    }
}

impl PayloadCodec for Encryption {
    fn name(&self) -> &'static str {
        "xchacha20-poly1305"
    }

    fn encode(&self, payload: &str) -> Result<Option<EncodedPayload>, PayloadError> {
        let failed =
            |reason: String| PayloadError::Unavailable(format!("cannot encrypt: {reason}"));
        let current = self.cipher(None);
        let (key, cipher) = current.ok_or_else(|| failed("no current key".to_owned()))?;
        let nonce = XNonce::try_generate().map_err(|error| failed(error.to_string()))?;
        let plaintext = Payload {
            msg: &self.plaintext(payload),
            aad: key.as_bytes(),
        };
        let ciphertext = cipher.encrypt(&nonce, plaintext);
        let ciphertext = ciphertext.map_err(|error| failed(error.to_string()))?;
        let bytes = [&*nonce, &*ciphertext].concat();
        Ok(Some(EncodedPayload { key, bytes }))
    }

    fn decode(&self, key: &str, bytes: &[u8]) -> Result<String, PayloadError> {
        let missing =
            || PayloadError::Unavailable(format!("the key `{key}` of a payload is missing"));
        let damaged = || PayloadError::Damaged(format!("a payload of key `{key}` is damaged"));
        let (_, cipher) = self.cipher(Some(key)).ok_or_else(missing)?;
        let (nonce, ciphertext) = bytes.split_first_chunk::<NONCE>().ok_or_else(damaged)?;
        let ciphertext = Payload {
            msg: ciphertext,
            aad: key.as_bytes(),
        };
        let plaintext = cipher.decrypt(nonce.into(), ciphertext);
        match plaintext.map_err(|_| damaged())?.split_first() {
            Some((&PLAIN, payload)) => text(payload.to_vec()),
            Some((&COMPRESSED, compressed)) => text(decompress(compressed)?),
            _ => Err(damaged()),
        }
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.read();
        f.debug_struct("Encryption")
            .field("current", &keys.current)
            .field("keys", &keys.ciphers.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_found() {
        let encryption = Encryption::new("k1", &[1; 32]).unwrap().compressed();
        for payload in ["", "short", &"long ".repeat(100)] {
            let EncodedPayload { key, bytes } = encryption.encode(payload).unwrap().unwrap();
            assert_eq!(encryption.decode(&key, &bytes).as_deref(), Ok(payload));
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                let damaged = encryption.decode(&key, &changed);
                assert!(matches!(damaged, Err(PayloadError::Damaged(_))), "{at}");
            }
            let short = encryption.decode(&key, &bytes[..bytes.len() - 1]);
            assert!(matches!(short, Err(PayloadError::Damaged(_))));
        }
    }

    #[test]
    fn a_payload_of_another_key_id_is_damaged_and_of_a_missing_key_unavailable() {
        let encryption = Encryption::new("k1", &[1; 32]).unwrap();
        encryption.add_key("k2", &[1; 32]).unwrap();
        let bytes = encryption.encode("text").unwrap().unwrap().bytes;
        let other = encryption.decode("k2", &bytes);
        assert!(matches!(other, Err(PayloadError::Damaged(_))));
        let missing = encryption.decode("k3", &bytes);
        assert!(matches!(missing, Err(PayloadError::Unavailable(_))));
    }

    #[test]
    fn parse_names_the_malformed_key_and_shows_no_secret() {
        let good = BASE64.encode([7; 32]);
        let keys = Encryption::parse(&format!(" new={good}\n\nold={good}, ")).unwrap();
        assert!(format!("{keys:?}").contains(r#"current: "new", keys: ["new", "old"]"#));
        for (text, part) in [
            ("", "there is no key"),
            (&good, "key 1 is not `id=base64`"),
            (
                &format!("k1={good},k2=c2VjcmV0"),
                "key 2 is not `id=base64` with 32 bytes",
            ),
            (&format!("k1={good},k1={good}"), "key `k1` exists"),
            (&format!("k:1={good}"), "is not a key id"),
        ] {
            let error = Encryption::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains(&good), "{error}");
        }
    }
}
