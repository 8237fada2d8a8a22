//! Effective partition keys: the position of a partition key value in the hash space.
//!
//! Version 2, and every level of a hierarchical key: each component is encoded with a type byte and
//! hashed with MurmurHash3 (x64, 128 bits, seed 0). The two highest bits of the hash are cleared.
//!
//! Version 1: the components are hashed with MurmurHash3 (32 bits, seed 0). The key is the hash as
//! a number, followed by the components, in an encoding whose order is that of the values. Only the
//! first 100 characters of a string count. Source: azure_data_cosmos_driver
//! `effective_partition_key.rs`, `partition_key.rs`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::sql::value;

/// The end of the hash space, exclusive.
pub(crate) const MAX: &str = "FF";

/// The end of the hashes of version 2, exclusive: the two highest bits are never set.
const END_V2: u64 = 0x4000_0000_0000_0000;
/// The end of the hashes of version 1, exclusive.
const END_V1: u64 = 1 << 32;

/// The characters of a string (in UTF-16) and the bytes of its encoding that count in version 1.
const MOST_V1: usize = 100;

/// Returns a component of a partition key with its number as the service compares it: `1` and `1.0` are the
/// same partition key.
pub(crate) fn normalized(value: &Value) -> Value {
    value.as_f64().map_or_else(|| value.clone(), value::number)
}

/// The version of a partition key definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

impl Version {
    /// Returns the version of a definition (`partitionKey` of a container). A definition without a
    /// version has version 1. Hierarchical keys exist only in version 2.
    pub(crate) fn of(definition: &Value) -> Self {
        if definition["version"] == 2 || definition["kind"] == "MultiHash" {
            Self::V2
        } else {
            Self::V1
        }
    }

    /// Returns the effective partition key of a value with one component per level; `None` stands
    /// for undefined.
    pub(crate) fn effective_partition_key(self, components: &[Option<Value>]) -> String {
        match self {
            Self::V1 => effective_partition_key_v1(components),
            Self::V2 => {
                let components = components.iter();
                components
                    .map(|component| hash_v2(component.as_ref()))
                    .collect()
            }
        }
    }

    /// Returns the boundary before part `at` of `count` equal parts of the hash space.
    pub(crate) fn boundary(self, at: u32, count: u32) -> String {
        let share = |end: u64| end * u64::from(at) / u64::from(count);
        match self {
            _ if at == 0 => String::new(),
            _ if at == count => MAX.to_owned(),
            // Like the service, which divides the highest hash.
            Self::V1 => encode_v1(share(END_V1 - 1)),
            Self::V2 => format!("{:08X}", share(END_V2 >> 32)),
        }
    }

    /// Returns the middle of two boundaries; `None` if no hash is between them.
    pub(crate) fn middle(self, min: &str, max: &str) -> Option<String> {
        let (low, high) = (self.position(min), self.position(max));
        if high.saturating_sub(low) < 2 {
            return None;
        }
        let middle = low + (high - low) / 2;
        Some(match self {
            Self::V1 => encode_v1(middle),
            Self::V2 => format!("{middle:016X}"),
        })
    }

    /// Converts a boundary to a number.
    fn position(self, boundary: &str) -> u64 {
        match self {
            Self::V1 if boundary == MAX => END_V1,
            Self::V2 if boundary == MAX => END_V2,
            Self::V1 => decode_v1(boundary),
            // The first sixteen digits, padded with zeros.
            Self::V2 => {
                let digits: String = boundary.chars().take(16).collect();
                u64::from_str_radix(&format!("{digits:0<16}"), 16).unwrap_or_default()
            }
        }
    }
}

fn hash_v2(component: Option<&Value>) -> String {
    let mut bytes = Vec::new();
    write_component(&mut bytes, component, |text, out| {
        out.extend(text.as_bytes());
        out.push(0xFF);
    });
    let hash = murmur3::murmur3_x64_128(&mut bytes.as_slice(), 0);
    let hash = hash.expect("reading from a slice does not fail");
    format!("{:032X}", hash & (u128::MAX >> 2))
}

/// Writes a component for hashing; `write_text` writes a string after its type.
fn write_component(
    out: &mut Vec<u8>,
    component: Option<&Value>,
    write_text: impl Fn(&str, &mut Vec<u8>),
) {
    match component {
        None | Some(Value::Array(_) | Value::Object(_)) => out.push(0x00),
        Some(Value::Null) => out.push(0x01),
        Some(Value::Bool(false)) => out.push(0x02),
        Some(Value::Bool(true)) => out.push(0x03),
        Some(Value::Number(number)) => {
            out.push(0x05);
            out.extend(number.as_f64().unwrap_or_default().to_le_bytes());
        }
        Some(Value::String(text)) => {
            out.push(0x08);
            write_text(text, out);
        }
    }
}

fn effective_partition_key_v1(components: &[Option<Value>]) -> String {
    let mut hashed = Vec::new();
    for component in components {
        write_component(&mut hashed, component.as_ref(), |text, out| {
            out.extend(counted_v1(text).as_bytes());
            out.push(0x00);
        });
    }
    let hash = murmur3::murmur3_32(&mut hashed.as_slice(), 0);
    let hash = hash.expect("reading from a slice does not fail");
    let mut encoded = Vec::new();
    write_number_v1(&mut encoded, f64::from(hash));
    for component in components {
        match component {
            Some(Value::Number(number)) => {
                write_number_v1(&mut encoded, number.as_f64().unwrap_or_default());
            }
            other => write_component(&mut encoded, other.as_ref(), write_text_v1),
        }
    }
    hexadecimal(&encoded)
}

/// Returns the part of a string that counts in version 1. Of a character in two units whose second one is
/// over the limit, a replacement character counts, as in .NET, whose strings are UTF-16.
fn counted_v1(text: &str) -> String {
    let mut counted = String::new();
    let mut left = MOST_V1;
    for character in text.chars() {
        let Some(rest) = left.checked_sub(character.len_utf16()) else {
            counted.extend((left > 0).then_some(char::REPLACEMENT_CHARACTER));
            break;
        };
        left = rest;
        counted.push(character);
    }
    counted
}

fn write_text_v1(text: &str, out: &mut Vec<u8>) {
    let text = counted_v1(text);
    // UTF-8 has no byte 0xFF, so there is no overflow.
    let successors = text.bytes().map(|byte| byte + 1);
    if text.len() > MOST_V1 {
        out.extend(successors.take(MOST_V1 + 1));
    } else {
        out.extend(successors.chain([0x00]));
    }
}

/// Writes a number so that the order of the bytes is that of the numbers: the highest eight bits, then groups
/// of seven bits up to the last one that is not zero. The lowest bit of a group's byte says whether another
/// group follows. Source: .NET's `NumberPartitionKeyComponent`, azure-sdk-for-js `hashing/encoding/number.ts`.
fn write_number_v1(out: &mut Vec<u8>, number: f64) {
    let bits = number.to_bits();
    let ordered = if number.is_sign_negative() {
        (!bits).wrapping_add(1)
    } else {
        bits | 1 << 63
    };
    let [highest, ..] = ordered.to_be_bytes();
    out.extend([0x05, highest]);
    let used = 56 - ordered.trailing_zeros().min(56);
    let groups = used.div_ceil(7).max(1);
    for group in 1..=groups {
        let [.., seven] = (ordered >> (56 - 7 * group) & 0x7F).to_be_bytes();
        out.push(seven << 1 | u8::from(group < groups));
    }
}

/// Returns the boundary of version 1 at a hash.
fn encode_v1(hash: u64) -> String {
    let mut encoded = Vec::new();
    let hash = u32::try_from(hash).unwrap_or(u32::MAX);
    write_number_v1(&mut encoded, f64::from(hash));
    hexadecimal(&encoded)
}

/// Returns the hash of a boundary of version 1; 0 for the start of the hash space.
fn decode_v1(boundary: &str) -> u64 {
    let (mut low, mut high) = (0, END_V1);
    // The encoding has the order of the hashes.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if *encode_v1(middle) <= *boundary {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a String cannot fail.
        let _written = write!(digits, "{byte:02X}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(version: Version, key: &[Option<Value>], expected: &str) {
        assert_eq!(version.effective_partition_key(key), expected, "{key:?}");
    }

    #[test]
    fn hashes_equal_those_of_the_python_client() {
        // Computed with azure-cosmos 4.17.1 for Python.
        for (component, expected) in [
            (Some(json!("redmond")), "22E342F38A486A088463DFF7838A5963"),
            (Some(json!("inst-1")), "23A8EFC029D44DA4A4733EF3A245AC71"),
            (Some(json!("")), "32E9366E637A71B4E710384B2F4970A0"),
            (Some(json!("é")), "007199F104E04116EE25AF912CA4889B"),
            (Some(json!(null)), "378867E4430E67857ACE5C908374FE16"),
            (Some(json!(true)), "0E711127C5B5A8E4726AC6DD306A3E59"),
            (Some(json!(1)), "20CD98B339BA78A5D0CF6953B87070B0"),
            (None, "11622DAA78F835834610ABE56EFF5CB5"),
        ] {
            check(Version::V2, &[component], expected);
        }
        assert_eq!(
            Version::V2.effective_partition_key(&[Some(json!("a")), Some(json!("b"))]),
            "3A5381E1114EB8D3FCC90795045B49B7195644569A78B1E22D200348AF9416CE",
        );
    }

    /// The conformance vectors of azure_data_cosmos_driver 1.0
    /// (`testdata/EffectivePartitionKeyConformance.json`), which come from Java's
    /// `PartitionKeyHashingTests` and from azure-cosmos 4.17.1 for Python.
    #[test]
    fn hashes_of_version_1_equal_those_of_the_official_clients() {
        let hundred = format!("05C1EB5921F70608{}00", "62".repeat(100));
        let long = "a".repeat(1024);
        for (component, expected) in [
            (Some(json!("")), "05C1CF33970FF80800"),
            (
                Some(json!("partitionKey")),
                "05C1E1B3D9CD2608716273756A756A706F4C667A00",
            ),
            (Some(json!(long)), &*hundred),
            (Some(json!(long[..100])), &*hundred),
            (Some(json!(long[..101])), &*hundred),
            (
                Some(json!("quote\"backslash\\slash/newline\n")),
                "05C1E739E3AD88087276707566236362646C746D6274695D746D627469306F66786D6A6F660B00",
            ),
            (
                Some(json!("café 東京 🚀")),
                "05C1DF0501C73008646267C4AA21E79EB2E5BBAD21F1A09B8100",
            ),
            (Some(json!(null)), "05C1ED45D7475601"),
            (None, "05C1D529E345DC00"),
            (Some(json!(true)), "05C1D7C5A903D803"),
            (Some(json!(false)), "05C1DB857D857C02"),
            (Some(json!(-128)), "05C1D73349F54C053FA0"),
            (Some(json!(127)), "05C1DD539DDFCC05C05FE0"),
            (Some(json!(i64::MIN)), "05C1DB35F33D1C053C20"),
            (Some(json!(i64::MAX)), "05C1B799AB2DD005C3E0"),
            (Some(json!(i32::MIN)), "05C1DFBF252BCC053E20"),
            (Some(json!(i32::MAX)), "05C1E1F503DFB205C1DFFFFFFFFC"),
            (Some(json!(5e-324)), "05C1E5C91F4D3005800101010101010102"),
            (Some(json!(f64::MAX)), "05C1CBE367C53005FFEFFFFFFFFFFFFFFE"),
        ] {
            check(Version::V1, &[component], expected);
        }
    }

    /// Java's and .NET's tests use these boundaries of containers with four partitions.
    #[test]
    fn boundaries_of_version_1_are_those_of_the_service() {
        let boundaries: Vec<String> = (0..=4).map(|at| Version::V1.boundary(at, 4)).collect();
        let expected = [
            "",
            "05C1CFFFFFFFF8",
            "05C1DFFFFFFFFC",
            "05C1E7FFFFFFFE",
            "FF",
        ];
        assert_eq!(boundaries, expected);
    }

    #[test]
    fn the_middle_of_a_range_divides_its_hashes_equally() {
        let middle = |min: &str, max: &str| Version::V1.middle(min, max);
        assert_eq!(middle("", MAX), Some(encode_v1(1 << 31)));
        let quarter = encode_v1(1 << 30);
        assert_eq!(middle("", &encode_v1(1 << 31)), Some(quarter));
        assert_eq!(middle(&encode_v1(7), &encode_v1(8)), None);
        for hash in [0, 1, 127, 128, 1 << 31, END_V1 - 1] {
            assert_eq!(decode_v1(&encode_v1(hash)), hash);
        }
    }

    #[test]
    fn a_definition_without_a_version_has_version_1() {
        let of = |definition| Version::of(&definition);
        assert_eq!(of(json!({ "kind": "Hash" })), Version::V1);
        assert_eq!(of(json!({ "kind": "Hash", "version": 1 })), Version::V1);
        assert_eq!(of(json!({ "kind": "Hash", "version": 2 })), Version::V2);
        assert_eq!(of(json!({ "kind": "MultiHash" })), Version::V2);
    }
}
