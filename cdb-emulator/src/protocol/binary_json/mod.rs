//! Cosmos DB's binary JSON, in which clients may send documents. Microsoft's Rust client does by
//! default.
//!
//! The first byte is not valid at the start of a text. Each value has a marker, a length unless the
//! marker implies it, and the content. Numbers are little-endian. Markers: .NET client,
//! `JsonBinaryEncoding.TypeMarker.cs`. Responses are text, which every client reads. Strings of an
//! external dictionary are not sent to the gateway, so they are rejected.

mod string;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use string::MAX_TEXT;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::protocol::error::ServiceError;

/// The first byte of a binary body.
const PREAMBLE: u8 = 0x80;
/// Maximum nesting of documents (concepts-limits).
const MAX_DEPTH: usize = 128;

/// Reads a body in text or binary form.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ServiceError> {
    let read = if body.first() == Some(&PREAMBLE) {
        serde_json::from_value(decode(body)?)
    } else {
        serde_json::from_slice(body)
    };
    read.map_err(ServiceError::invalid_payload)
}

fn decode(body: &[u8]) -> Result<Value, ServiceError> {
    let mut reader = Reader {
        body,
        at: 1,
        text: 0,
    };
    let value = reader.value(0);
    match value {
        Some(value) if reader.at == body.len() => Ok(value),
        _ => Err(ServiceError::bad_request(format!(
            "The request payload is not valid binary JSON: it cannot be read after byte {}.",
            reader.at
        ))),
    }
}

/// The end and the number of members of a list or object, as far as its marker includes them.
#[derive(Clone, Copy)]
struct Frame {
    end: Option<usize>,
    count: Option<usize>,
}

/// A reader of a body. Its methods return `None` for invalid content.
struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    /// The size of all strings so far, in bytes.
    text: usize,
}

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(count)?;
        let bytes = self.body.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// An unsigned number of up to four bytes.
    fn length(&mut self, bytes: usize) -> Option<usize> {
        let bytes = self.bytes(bytes)?.iter().rev();
        Some(bytes.fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        let marker = *self.body.get(self.at)?;
        match marker {
            0xE0..=0xE7 => self.list(depth),
            0xE8..=0xEF => self.object(depth),
            0xF0..=0xF3 => self.uniform(),
            0x20..=0xC6 | 0xD3 | 0xDD..=0xDF => self.string().map(Value::String),
            _ => {
                self.at += 1;
                self.scalar(marker)
            }
        }
    }

    fn scalar(&mut self, marker: u8) -> Option<Value> {
        Some(match marker {
            0xD0 => Value::Null,
            0xD1 | 0xD2 => (marker == 0xD2).into(),
            0x00..=0x1F => marker.into(),
            0xC7 => u64::from_le_bytes(self.array()?).into(),
            0xC8 => self.number(0xD7)?,
            0xC9..=0xCB => self.number(marker + 0x10)?,
            0xCC => self.number(0xCE)?,
            _ => self.number(marker)?,
        })
    }

    /// Reads a number of the type of a marker, which is also used in uniform arrays.
    fn number(&mut self, marker: u8) -> Option<Value> {
        let float = |number: f64| serde_json::Number::from_f64(number).map(Value::Number);
        Some(match marker {
            0xD7 => u8::from_le_bytes(self.array()?).into(),
            0xD8 => i8::from_le_bytes(self.array()?).into(),
            0xD9 => i16::from_le_bytes(self.array()?).into(),
            0xDA => i32::from_le_bytes(self.array()?).into(),
            0xDB => i64::from_le_bytes(self.array()?).into(),
            0xDC => u32::from_le_bytes(self.array()?).into(),
            0xCD => float(f32::from_le_bytes(self.array()?).into())?,
            0xCE => float(f64::from_le_bytes(self.array()?))?,
            _ => return None,
        })
    }

    /// Reads the frame of a list or object.
    fn frame(&mut self, empty: u8) -> Option<Frame> {
        let kind = self.length(1)? - usize::from(empty);
        if kind < 2 {
            return Some(Frame {
                end: None,
                count: Some(kind),
            });
        }
        let width = [1, 2, 4][(kind - 2) % 3];
        let length = self.length(width)?;
        let count = if kind >= 5 {
            Some(self.length(width)?)
        } else {
            None
        };
        let end = self.at.checked_add(length)?;
        (end <= self.body.len()).then_some(Frame {
            end: Some(end),
            count,
        })
    }

    /// Returns whether another member follows.
    fn follows(&self, frame: Frame, so_far: usize) -> bool {
        match frame.end {
            Some(end) => self.at < end,
            None => Some(so_far) < frame.count,
        }
    }

    /// Returns whether the members match the frame.
    fn fits(&self, frame: Frame, read: usize) -> bool {
        let ends = frame.end.is_none_or(|end| end == self.at);
        ends && frame.count.is_none_or(|count| count == read)
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let frame = self.frame(0xE0)?;
        let mut items = Vec::new();
        while self.follows(frame, items.len()) {
            items.push(self.value(depth + 1)?);
        }
        self.fits(frame, items.len()).then_some(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let frame = self.frame(0xE8)?;
        let (mut object, mut read) = (Map::new(), 0);
        while self.follows(frame, read) {
            let name = self.string()?;
            object.insert(name, self.value(depth + 1)?);
            read += 1;
        }
        self.fits(frame, read).then_some(Value::Object(object))
    }

    /// Reads an array of numbers of one type, or an array of such arrays of equal length.
    fn uniform(&mut self) -> Option<Value> {
        let marker = self.length(1)?;
        let width = 1 + marker % 2;
        let nested = marker >= 0xF2;
        if nested && self.length(1)? != marker - 2 {
            return None;
        }
        let kind = self.array::<1>()?[0];
        let count = self.length(width)?;
        let outer = if nested { self.length(width)? } else { 1 };
        if nested && count == 0 && outer > 0 {
            // Clients do not write arrays of empty arrays in this form, and a few bytes could
            // create thousands of them.
            return None;
        }
        let mut lists = Vec::new();
        for _ in 0..outer {
            let list: Option<Vec<Value>> = (0..count).map(|_| self.number(kind)).collect();
            lists.push(Value::Array(list?));
        }
        if nested {
            Some(Value::Array(lists))
        } else {
            lists.pop()
        }
    }
}

#[cfg(test)]
mod tests;
