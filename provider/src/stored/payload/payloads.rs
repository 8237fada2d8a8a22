//! The stored form of payloads, `cdb:payload:<key id>:<base64>`, and where a codec is applied:
//! once at each edge of the provider. In between, payloads are encoded.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use duroxide::providers::{KvEntry, OrchestrationItem, WorkItem};
use duroxide::{ErrorDetails, Event, EventKind};

use super::codec::{EncodedPayload, PayloadCodec, PayloadError, check_key_id};
use super::fields::{of_error, of_event, of_message};
use crate::error::{Error, Result};

/// The beginning of a payload that is not stored as it is.
const PREFIX: &str = "cdb:payload:";

/// The key id of a payload that is not encoded, but begins with the prefix itself.
const ESCAPED: &str = "";

/// The codec of a provider, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Payloads {
    codec: Option<Arc<dyn PayloadCodec>>,
    /// Whether payloads that cannot be decoded stay in their stored form.
    lenient: bool,
    /// The reason why a tool must not write payloads: its codec is not that of the container.
    write_refusal: Option<Arc<str>>,
}

impl Payloads {
    /// Creates the payloads of a runtime, which fails on a payload that it cannot decode.
    pub(crate) fn new(codec: Option<Arc<dyn PayloadCodec>>) -> Self {
        Self {
            codec,
            ..Self::default()
        }
    }

    /// Leaves payloads that cannot be decoded in their stored form, when reading and when writing, so
    /// that tools work without the key. With `write_refusal`, the reason why the codec does not fit the
    /// container, fails to encode any other payload.
    pub(crate) fn lenient(self, write_refusal: Option<String>) -> Self {
        Self {
            lenient: true,
            write_refusal: write_refusal.map(Arc::from),
            ..self
        }
    }

    /// Fails on payloads that cannot be decoded, for a tool too.
    pub(crate) fn strict(&self) -> Self {
        Self {
            lenient: false,
            ..self.clone()
        }
    }

    /// Encodes a payload in place.
    pub(crate) fn encode(&self, payload: &mut String) -> Result<()> {
        let is_prefixed = payload.starts_with(PREFIX);
        if self.lenient && is_prefixed {
            return Ok(());
        }
        if let Some(reason) = &self.write_refusal {
            return Err(Error::Refused(reason.to_string()));
        }
        let encoded = match &self.codec {
            Some(codec) => codec.encode(payload)?,
            None => None,
        };
        if let Some(EncodedPayload { key, bytes }) = encoded {
            check_key_id(&key)?;
            *payload = prefixed(&key, &bytes);
        } else if is_prefixed {
            *payload = prefixed(ESCAPED, payload.as_bytes());
        }
        Ok(())
    }

    /// Decodes a payload in place. A payload without the prefix was stored as it is.
    pub(crate) fn decode(&self, payload: &mut String) -> Result<()> {
        let Some(encoded) = payload.strip_prefix(PREFIX) else {
            return Ok(());
        };
        match self.decoded(encoded) {
            Ok(decoded) => *payload = decoded,
            Err(_) if self.lenient => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the decoded payload, or the stored one if it cannot be decoded.
    pub(crate) fn readable(&self, payload: String) -> String {
        let encoded = payload.strip_prefix(PREFIX);
        let decoded = encoded.and_then(|encoded| self.decoded(encoded).ok());
        decoded.unwrap_or(payload)
    }

    /// Returns a message with [`readable`](Self::readable) payloads.
    pub(crate) fn readable_message(&self, mut message: WorkItem) -> WorkItem {
        for payload in of_message(&mut message) {
            *payload = self.readable(std::mem::take(payload));
        }
        message
    }

    /// Returns error details with decoded payloads.
    ///
    /// # Errors
    /// Fails when a payload cannot be decoded, even for a tool.
    pub(crate) fn decoded_error(&self, details: &ErrorDetails) -> Result<ErrorDetails> {
        let mut details = details.clone();
        for payload in of_error(&mut details) {
            if let Some(encoded) = payload.strip_prefix(PREFIX) {
                *payload = self.decoded(encoded)?;
            }
        }
        Ok(details)
    }

    fn decoded(&self, encoded: &str) -> Result<String, PayloadError> {
        let damaged = |reason: &str| PayloadError::Damaged(format!("a payload {reason}"));
        let parts = encoded.split_once(':');
        let (key, bytes) = parts.ok_or_else(|| damaged("has no key id"))?;
        let bytes = BASE64.decode(bytes).map_err(|_| damaged("is not base64"))?;
        match &self.codec {
            _ if key == ESCAPED => String::from_utf8(bytes).map_err(|_| damaged("is not UTF-8")),
            Some(codec) => codec.decode(key, &bytes),
            None => Err(PayloadError::Unavailable(format!(
                "a payload is encoded with key `{key}`, and this reader has no `payload_codec`"
            ))),
        }
    }

    /// Encodes payloads in place.
    pub(crate) fn encode_all<'a>(
        &self,
        payloads: impl IntoIterator<Item = &'a mut String>,
    ) -> Result<()> {
        payloads
            .into_iter()
            .try_for_each(|payload| self.encode(payload))
    }

    /// Decodes payloads in place.
    pub(crate) fn decode_all<'a>(
        &self,
        payloads: impl IntoIterator<Item = &'a mut String>,
    ) -> Result<()> {
        payloads
            .into_iter()
            .try_for_each(|payload| self.decode(payload))
    }

    /// Encodes the payloads of a message. A tool without the container's codec leaves the reason of
    /// a cancellation as it is, so that it can cancel.
    pub(crate) fn encode_message(&self, message: &mut WorkItem) -> Result<()> {
        if self.write_refusal.is_some() && matches!(message, WorkItem::CancelInstance { .. }) {
            return Ok(());
        }
        self.encode_all(of_message(message))
    }

    /// Decodes the payloads of a message.
    pub(crate) fn decode_message(&self, message: &mut WorkItem) -> Result<()> {
        self.decode_all(of_message(message))
    }

    /// Returns the reason if a key is missing for a payload of this stored message. Returns `None` if
    /// the text or a payload is damaged. Parses only texts that contain an encoded payload.
    pub(crate) fn missing_key(&self, text: &str) -> Option<String> {
        if !text.contains(PREFIX) {
            return None;
        }
        let mut message = serde_json::from_str(text).ok()?;
        match self.decode_message(&mut message) {
            Err(Error::KeyUnavailable(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Encodes the payloads of messages.
    pub(crate) fn encode_messages(&self, messages: &mut [WorkItem]) -> Result<()> {
        self.encode_all(messages.iter_mut().flat_map(of_message))
    }

    /// Encodes the payloads of events.
    pub(crate) fn encode_events(&self, events: &mut [Event]) -> Result<()> {
        self.encode_all(of_events(events))
    }

    fn decode_events(&self, events: &mut [Event]) -> Result<()> {
        self.decode_all(of_events(events))
    }

    /// Decodes a history for a client. Leaves out damaged events of a failed execution: its last
    /// event says why it failed, which may be the damage.
    pub(crate) fn decode_history(&self, mut events: Vec<Event>) -> Result<Vec<Event>> {
        let last = events.last().map(|event| &event.kind);
        if !matches!(last, Some(EventKind::OrchestrationFailed { .. })) {
            self.decode_events(&mut events)?;
            return Ok(events);
        }
        let mut readable = Vec::with_capacity(events.len());
        for mut event in events {
            match self.decode_events(std::slice::from_mut(&mut event)) {
                Ok(()) => readable.push(event),
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(readable)
    }

    /// Decodes a turn for the runtime.
    pub(crate) fn decode_turn(&self, item: &mut OrchestrationItem) -> Result<()> {
        self.decode_events(&mut item.history)?;
        self.decode_all(item.messages.iter_mut().flat_map(of_message))?;
        self.decode_entries(&mut item.kv_snapshot)
    }

    /// Decodes a key-value store.
    pub(crate) fn decode_entries(&self, entries: &mut HashMap<String, KvEntry>) -> Result<()> {
        self.decode_all(entries.values_mut().map(|entry| &mut entry.value))
    }

    /// Decodes an optional payload.
    pub(crate) fn decode_option(&self, mut payload: Option<String>) -> Result<Option<String>> {
        self.decode_all(&mut payload)?;
        Ok(payload)
    }
}

/// Returns the payloads of events.
fn of_events(events: &mut [Event]) -> impl Iterator<Item = &mut String> {
    let kinds = events.iter_mut().map(|event| &mut event.kind);
    kinds.flat_map(of_event)
}

fn prefixed(key: &str, bytes: &[u8]) -> String {
    let mut text = format!("{PREFIX}{key}:");
    BASE64.encode_string(bytes, &mut text);
    text
}

impl From<PayloadError> for Error {
    fn from(error: PayloadError) -> Self {
        match error {
            PayloadError::Unavailable(reason) => Self::KeyUnavailable(reason),
            PayloadError::Damaged(reason) => Self::Damaged(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A codec that changes nothing, and knows the key `k1` only.
    #[derive(Debug)]
    struct OneKey;

    impl PayloadCodec for OneKey {
        fn name(&self) -> &'static str {
            "one-key"
        }

        fn encode(&self, payload: &str) -> Result<Option<EncodedPayload>, PayloadError> {
            let key = "k1".to_owned();
            let bytes = payload.as_bytes().to_vec();
            Ok((payload != "as it is").then_some(EncodedPayload { key, bytes }))
        }

        fn decode(&self, key: &str, bytes: &[u8]) -> Result<String, PayloadError> {
            if key != "k1" {
                return Err(PayloadError::Unavailable(key.to_owned()));
            }
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    fn with_codec() -> Payloads {
        Payloads::new(Some(Arc::new(OneKey)))
    }

    fn encoded(payloads: &Payloads, payload: &str) -> String {
        let mut text = payload.to_owned();
        payloads.encode(&mut text).unwrap();
        text
    }

    fn decoded(payloads: &Payloads, stored: &str) -> Result<String> {
        payloads
            .decode_option(Some(stored.to_owned()))
            .map(Option::unwrap_or_default)
    }

    #[test]
    fn any_text_is_read_as_it_was_written() {
        for payloads in [Payloads::default(), with_codec()] {
            for payload in [
                "",
                "text",
                "as it is",
                PREFIX,
                "cdb:payload:k1:AAAA",
                "cdb:payload:::",
            ] {
                let stored = encoded(&payloads, payload);
                assert_eq!(decoded(&payloads, &stored).unwrap(), payload, "{stored}");
            }
        }
        assert_eq!(encoded(&with_codec(), "text"), "cdb:payload:k1:dGV4dA==");
        assert_eq!(encoded(&Payloads::default(), "text"), "text");
    }

    #[test]
    fn a_missing_key_is_retryable_and_damage_is_not() {
        let unknown = "cdb:payload:k2:dGV4dA==";
        for payloads in [Payloads::default(), with_codec()] {
            assert!(decoded(&payloads, unknown).unwrap_err().is_retryable());
            for damaged in ["cdb:payload:k1", "cdb:payload:k1:!", "cdb:payload::/w=="] {
                assert!(
                    !decoded(&payloads, damaged).unwrap_err().is_retryable(),
                    "{damaged}"
                );
            }
        }
    }

    #[test]
    fn tools_pass_on_what_they_cannot_decode() {
        let tool = with_codec().lenient(None);
        for stored in ["cdb:payload:k2:dGV4dA==", "cdb:payload:k1"] {
            assert_eq!(decoded(&tool, stored).unwrap(), stored);
            assert_eq!(encoded(&tool, stored), stored);
            assert_eq!(with_codec().readable(stored.to_owned()), stored);
        }
        assert_eq!(decoded(&tool, "cdb:payload:k1:dGV4dA==").unwrap(), "text");
        assert_eq!(encoded(&tool, "text"), "cdb:payload:k1:dGV4dA==");
    }

    #[test]
    fn key_ids_have_no_separator() {
        for wrong in ["", "a:b", "a b", &"x".repeat(65)] {
            check_key_id(wrong).unwrap_err();
        }
        check_key_id("2026-01_a.B").unwrap();
    }
}
