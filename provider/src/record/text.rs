//! JSON in which long texts are replaced by their length and their hash.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

/// The longest text that is stored whole, in bytes of JSON.
const LONGEST: usize = 4096;

/// Returns a value as JSON with bounded texts.
pub(super) fn bounded(value: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(256);
    let written = value.serialize(&mut Serializer::with_formatter(
        &mut json,
        Bounded::default(),
    ));
    debug_assert!(written.is_ok(), "a line is JSON: {written:?}");
    json
}

/// Returns the 64-bit FNV-1a hash of a text, continuing that of the text before it.
pub(super) fn hash(before: u64, text: &[u8]) -> u64 {
    text.iter().fold(before, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The hash of an empty text.
pub(super) const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Writes a text when its end, and so its length, is known.
#[derive(Default)]
struct Bounded {
    text: Vec<u8>,
}

impl Formatter for Bounded {
    fn begin_string<W: Write + ?Sized>(&mut self, _: &mut W) -> Result<()> {
        self.text.clear();
        Ok(())
    }

    fn write_string_fragment<W: Write + ?Sized>(&mut self, _: &mut W, text: &str) -> Result<()> {
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn write_char_escape<W: Write + ?Sized>(&mut self, _: &mut W, it: CharEscape) -> Result<()> {
        CompactFormatter.write_char_escape(&mut self.text, it)
    }

    fn end_string<W: Write + ?Sized>(&mut self, writer: &mut W) -> Result<()> {
        let (bytes, text) = (self.text.len(), &self.text);
        if bytes > LONGEST {
            let hash = hash(EMPTY, text);
            return write!(writer, r#"{{"bytes":{bytes},"hash":"{hash:016x}"}}"#);
        }
        writer.write_all(b"\"")?;
        writer.write_all(text)?;
        writer.write_all(b"\"")
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, bounded};

    #[test]
    fn a_long_text_is_its_length_and_its_hash() {
        let texts = ["a\"b\n".to_owned(), "x".repeat(LONGEST + 1)];
        let json = String::from_utf8(bounded(&texts)).unwrap();
        assert_eq!(
            json,
            r#"["a\"b\n",{"bytes":4097,"hash":"4259c4b56badd707"}]"#
        );
    }
}
