//! The forms of strings: dictionaries, references and packed characters.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::Reader;

/// Maximum size of all strings in bytes, with references expanded. It is far above the limit of a
/// document.
pub(crate) const MAX_TEXT: usize = 16 * 1024 * 1024;

/// Strings with a marker of their own.
const SYSTEM_STRINGS: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];

/// The alphabets of strings that are packed into half bytes.
const NIBBLES: [&[u8; 16]; 3] = [
    b"0123456789abcdef",
    b"0123456789ABCDEF",
    b" 0123456789:-.TZ",
];

impl Reader<'_> {
    /// Reads a string in any form.
    pub(super) fn string(&mut self) -> Option<String> {
        let marker = self.array::<1>()?[0];
        let text = match marker {
            0x20..=0x3F => SYSTEM_STRINGS[usize::from(marker - 0x20)].to_owned(),
            0x80..=0xBF => self.utf8(usize::from(marker & 0x7F))?,
            0xC0..=0xC2 => {
                let length = self.length([1, 2, 4][usize::from(marker - 0xC0)])?;
                self.utf8(length)?
            }
            0xC3..=0xC6 => self.earlier(usize::from(marker - 0xC2))?,
            0x71..=0x74 => self.base64(marker)?,
            0x75 => self.guid_text()?,
            0x76 => self.guid_text()?.to_ascii_uppercase(),
            0x77 => format!("\"{}\"", self.guid_text()?),
            0x78..=0x7A => self.nibbles(NIBBLES[usize::from(marker - 0x78)])?,
            0x7B..=0x7F => self.packed(marker)?,
            0xD3 => self.guid()?,
            0xDD..=0xDF => {
                let length = self.length([1, 2, 4][usize::from(marker - 0xDD)])?;
                STANDARD.encode(self.bytes(length)?)
            }
            _ => return None,
        };
        self.text = self.text.checked_add(text.len())?;
        (self.text <= MAX_TEXT).then_some(text)
    }

    fn utf8(&mut self, length: usize) -> Option<String> {
        std::str::from_utf8(self.bytes(length)?)
            .ok()
            .map(str::to_owned)
    }

    /// Reads a string at an earlier offset of `width` bytes. A reference to a reference is invalid.
    fn earlier(&mut self, width: usize) -> Option<String> {
        let target = self.length(width)?;
        let is_reference = matches!(self.body.get(target)?, 0xC3..=0xC6);
        if is_reference || target >= self.at {
            return None;
        }
        let back = std::mem::replace(&mut self.at, target);
        let found = self.string();
        self.at = back;
        found
    }

    /// Reads the bytes of a base64 text: the number of groups of four characters, and the padding,
    /// which is negated if the text omits it.
    fn base64(&mut self, marker: u8) -> Option<String> {
        let (alphabet, first) = if marker >= 0x73 {
            (URL_SAFE, 0x73)
        } else {
            (STANDARD, 0x71)
        };
        let characters = self
            .length(usize::from(marker - first) + 1)?
            .checked_mul(4)?;
        let padding = self.array::<1>()?[0];
        let (padding, left_out) = if padding > 2 {
            (!padding, true)
        } else {
            (padding, false)
        };
        let padding = usize::from(padding);
        let bytes = characters.checked_sub(padding)?.checked_mul(3)? / 4;
        let mut text = alphabet.encode(self.bytes(bytes)?);
        if left_out {
            text.truncate(characters - padding);
        }
        Some(text)
    }

    /// Reads a GUID in the order of its digits, with the two digits of each byte swapped.
    fn guid_text(&mut self) -> Option<String> {
        let bytes = self.array::<16>()?;
        Some(hyphenated(bytes.map(|byte| byte.rotate_left(4))))
    }

    /// Reads a GUID in the form of the .NET type: three little-endian numbers and eight bytes.
    fn guid(&mut self) -> Option<String> {
        let b = self.array::<16>()?;
        Some(hyphenated([
            b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13],
            b[14], b[15],
        ]))
    }

    /// Reads two characters per byte, the lower half first.
    fn nibbles(&mut self, table: &[u8; 16]) -> Option<String> {
        let length = self.length(1)?;
        let bytes = self.bytes(length.div_ceil(2))?;
        let characters = bytes.iter().flat_map(|byte| [byte & 0xF, byte >> 4]);
        let text = characters.map(|at| char::from(table[usize::from(at)]));
        Some(text.take(length).collect())
    }

    /// Reads characters of four to seven bits, lowest bits first, mostly as offsets from a first
    /// character.
    fn packed(&mut self, marker: u8) -> Option<String> {
        let bits = usize::from(marker.min(0x7E) - 0x7B) + 4;
        let length = self.length(if marker == 0x7F { 2 } else { 1 })?;
        let first = if bits < 7 { self.array::<1>()?[0] } else { 0 };
        let bytes = self.bytes((length * bits).div_ceil(8))?;
        let text = (0..length).map(|at| {
            let bit = at * bits;
            let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or_default());
            let window = byte(bit / 8) | byte(bit / 8 + 1) << 8;
            let [character, _] = (window >> (bit % 8) & ((1 << bits) - 1)).to_le_bytes();
            char::from(character.wrapping_add(first))
        });
        Some(text.collect())
    }
}

fn hyphenated(bytes: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(bytes).hyphenated().to_string()
}
