//! The effective partition key (EPK): the hash of a partition key, in the space that physical
//! partitions divide.
//!
//! Hash of partition key version 2: MurmurHash3 (x64, 128 bits, seed 0) over a type marker and the
//! value, bytes reversed, the two highest bits cleared, as upper-case hexadecimal. Hierarchical
//! keys hash each level and concatenate the hashes.
//!
//! Version 1: MurmurHash3 (32 bits, seed 0) over the value, then the hash as a number and the value,
//! in an encoding whose order is that of the values. Only the first 100 characters of a string
//! count. The gateway computes the hash itself; the client needs it to group operations by physical
//! partition. Source: azure_data_cosmos_driver `effective_partition_key.rs`, `partition_key.rs`.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use cdb_model::PartitionKey;
use cdb_model::value::PartitionKeyValue;
use serde::{Deserialize, Serialize};

/// The characters of a string (in UTF-16) and the bytes of its encoding that count in version 1.
const MOST_V1: usize = 100;

/// A point in the hash space, in hexadecimal digits. The space starts at `""` and ends before `FF`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Epk(String);

impl Epk {
    /// Reads a boundary of a range in the service's notation.
    pub(crate) fn from_service(digits: &str) -> Self {
        Self(digits.to_ascii_uppercase())
    }

    /// Returns the hash of a full partition key; `None` for a kind of value that this client cannot
    /// hash.
    pub(crate) fn of(key: &PartitionKey, version: HashVersion) -> Option<Self> {
        let digits = match version {
            HashVersion::V1 => digits_v1(key),
            HashVersion::V2 => digits_v2(key),
        };
        digits.map(Self)
    }
}

/// A part of the hash space, from `min` to before `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EpkPart {
    pub min: Epk,
    pub max: Epk,
}

impl EpkPart {
    /// The hash space.
    pub(crate) fn whole() -> Self {
        Self {
            min: Epk::from_service(""),
            max: Epk::from_service("FF"),
        }
    }

    /// Returns the part of all hierarchical keys that begin with these levels; `None` if this client
    /// cannot hash them. Its end: azure_data_cosmos_driver `effective_partition_key.rs`,
    /// `compute_range`.
    pub(crate) fn of_prefix(levels: &PartitionKey) -> Option<Self> {
        let min = Epk::of(levels, HashVersion::V2)?;
        let max = Epk::from_service(&format!("{min}FF"));
        Some(Self { min, max })
    }

    /// Returns the common part; `None` if there is none.
    pub(crate) fn intersection(&self, other: &Self) -> Option<Self> {
        let min = self.min.clone().max(other.min.clone());
        let max = self.max.clone().min(other.max.clone());
        (min < max).then_some(Self { min, max })
    }
}

/// The version of the hash, which the definition of the container's partition key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashVersion {
    V1,
    V2,
}

impl HashVersion {
    /// Returns the version of a container with these boundaries between its ranges. Version 1 for
    /// numbers in its encoding; a boundary of version 2 has 32 digits, or some zeros less. Without
    /// boundaries, every key is in the one range.
    pub(crate) fn of_boundaries<'a>(boundaries: impl IntoIterator<Item = &'a Epk>) -> Self {
        let mut boundaries = boundaries.into_iter().peekable();
        if boundaries.peek().is_some() && boundaries.all(|Epk(digits)| is_number_v1(digits)) {
            Self::V1
        } else {
            Self::V2
        }
    }
}

/// Whether these digits are the encoding of a hash of version 1.
fn is_number_v1(digits: &str) -> bool {
    let bytes = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect::<Option<Vec<u8>>>();
    match bytes.as_deref() {
        // No hash has more than 32 bits, so its encoding has at most eight bytes.
        Some([0x05, 0x80..=0xC1, between @ .., last]) => {
            between.len() <= 5 && last % 2 == 0 && between.iter().all(|byte| byte % 2 == 1)
        }
        _ => false,
    }
}

/// The service trims or pads trailing zeros of boundaries, so both sides are compared as if padded.
impl Ord for Epk {
    fn cmp(&self, other: &Self) -> Ordering {
        let length = self.0.len().max(other.0.len());
        let padded = |digits: &str| {
            let digits = digits.bytes().collect::<Vec<_>>();
            (0..length).map(move |at| digits.get(at).copied().unwrap_or(b'0'))
        };
        padded(&self.0).cmp(padded(&other.0))
    }
}

impl PartialOrd for Epk {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Epk {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Epk {}

impl fmt::Display for Epk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Encodes a value for hashing; `write_text` writes a string after its type. Returns `None` for a
/// kind of value that this client cannot hash.
fn encode(value: &PartitionKeyValue, write_text: fn(&str, &mut Vec<u8>)) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match value {
        PartitionKeyValue::Bool(false) => bytes.push(0x02),
        PartitionKeyValue::Bool(true) => bytes.push(0x03),
        PartitionKeyValue::Integer(number) => {
            bytes.push(0x05);
            bytes.extend_from_slice(&exact_double(*number)?.to_le_bytes());
        }
        PartitionKeyValue::String(text) => {
            bytes.push(0x08);
            write_text(text, &mut bytes);
        }
        _ => return None,
    }
    Some(bytes)
}

fn digits_v2(key: &PartitionKey) -> Option<String> {
    let mut digits = String::with_capacity(32 * key.values().len());
    for value in key.values() {
        let bytes = encode(value, |text, out| {
            out.extend_from_slice(text.as_bytes());
            out.push(0xFF);
        })?;
        // Writing to a String cannot fail.
        let _written = write!(digits, "{:032X}", hash(&bytes));
    }
    Some(digits)
}

fn digits_v1(key: &PartitionKey) -> Option<String> {
    let mut hashed = Vec::new();
    for value in key.values() {
        hashed.extend(encode(value, |text, out| {
            out.extend_from_slice(counted_v1(text).as_bytes());
            out.push(0x00);
        })?);
    }
    let hash = murmur3::murmur3_32(&mut &*hashed, 0);
    let hash = hash.expect("reading from a slice does not fail");
    let mut encoded = Vec::new();
    write_number_v1(&mut encoded, f64::from(hash));
    for value in key.values() {
        match value {
            PartitionKeyValue::Integer(number) => {
                write_number_v1(&mut encoded, exact_double(*number)?);
            }
            other => encoded.extend(encode(other, write_text_v1)?),
        }
    }
    Some(hexadecimal(&encoded))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a String cannot fail.
        let _written = write!(digits, "{byte:02X}");
        digits
    })
}

/// Returns the part of a string that counts in version 1. A surrogate pair that the limit divides
/// becomes one replacement character.
fn counted_v1(text: &str) -> String {
    let units: Vec<u16> = text.encode_utf16().take(MOST_V1).collect();
    String::from_utf16_lossy(&units)
}

fn write_text_v1(text: &str, out: &mut Vec<u8>) {
    let text = counted_v1(text);
    let bytes = text.bytes().take(MOST_V1 + 1);
    out.extend(bytes.map(|byte| byte.wrapping_add(1)));
    if text.len() <= MOST_V1 {
        out.push(0x00);
    }
}

const SIGN: u64 = 1 << 63;

/// Writes a number as its first byte, then seven bits per byte. The lowest bit of a byte says
/// whether another one follows.
fn write_number_v1(out: &mut Vec<u8>, number: f64) {
    let bits = number.to_bits();
    let ordered = if bits < SIGN {
        bits ^ SIGN
    } else {
        bits.wrapping_neg()
    };
    let [first, ..] = ordered.to_be_bytes();
    out.extend([0x05, first]);
    let mut rest = ordered << 8;
    loop {
        let [next, ..] = rest.to_be_bytes();
        rest <<= 7;
        if rest == 0 {
            return out.push(next & 0xFE);
        }
        out.push(next | 0x01);
    }
}

/// Returns `None` above 2^53, where a JSON number is no longer exact.
fn exact_double(number: i64) -> Option<f64> {
    let magnitude = number.unsigned_abs();
    if magnitude > 1 << 53 {
        return None;
    }
    let high = u32::try_from(magnitude >> 32).ok()?;
    let low = u32::try_from(magnitude & u64::from(u32::MAX)).ok()?;
    let double = f64::from(high) * 4_294_967_296.0 + f64::from(low);
    Some(if number < 0 { -double } else { double })
}

/// Returns the hash of an encoded value without its two highest bits.
fn hash(bytes: &[u8]) -> u128 {
    let hash = murmur3::murmur3_x64_128(&mut &*bytes, 0);
    hash.expect("reading from a slice does not fail") & (u128::MAX >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: impl Into<PartitionKey>, digits: &str) {
        let epk = Epk::of(&key.into(), HashVersion::V2).unwrap();
        assert_eq!(epk.to_string(), digits);
    }

    #[track_caller]
    fn check_v1(key: impl Into<PartitionKey>, digits: &str) {
        let epk = Epk::of(&key.into(), HashVersion::V1).unwrap();
        assert_eq!(epk.to_string(), digits);
    }

    /// Conformance vectors of azure_data_cosmos_driver 1.0
    /// (`testdata/EffectivePartitionKeyConformance.json`).
    #[test]
    fn hashes_of_version_1_equal_those_of_the_official_clients() {
        let hundred = format!("05C1EB5921F70608{}00", "62".repeat(100));
        let long = "a".repeat(1024);
        check_v1("", "05C1CF33970FF80800");
        check_v1("partitionKey", "05C1E1B3D9CD2608716273756A756A706F4C667A00");
        for length in [100, 101, 1024] {
            check_v1(&long[..length], &hundred);
        }
        check_v1(
            "café 東京 🚀",
            "05C1DF0501C73008646267C4AA21E79EB2E5BBAD21F1A09B8100",
        );
        check_v1(true, "05C1D7C5A903D803");
        check_v1(false, "05C1DB857D857C02");
        check_v1(-128, "05C1D73349F54C053FA0");
        check_v1(127, "05C1DD539DDFCC05C05FE0");
        check_v1(i32::MIN, "05C1DFBF252BCC053E20");
        check_v1(i32::MAX, "05C1E1F503DFB205C1DFFFFFFFFC");
    }

    #[test]
    fn boundaries_show_the_version_of_the_hash() {
        let version = |boundaries: &[&str]| {
            let boundaries: Vec<Epk> = boundaries.iter().map(|b| Epk::from_service(b)).collect();
            HashVersion::of_boundaries(&boundaries)
        };
        // Java's and .NET's tests use these boundaries.
        let four = ["05C1CFFFFFFFF8", "05C1DFFFFFFFFC", "05C1E7FFFFFFFE"];
        assert_eq!(version(&four), HashVersion::V1);
        for v2 in [
            vec![],
            vec!["1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"],
            vec!["05C1DFFFFFFFFC", "1FFFFFFF"],
            vec!["05C1E1B3D9CD2608716273756A756A70"],
            vec!["05C1"],
            vec!["05"],
            vec!["05C"],
        ] {
            assert_eq!(version(&v2), HashVersion::V2, "{v2:?}");
        }
        for hash in [0, 1, 2, 127, 1 << 16, 1 << 31, u32::MAX] {
            let mut bytes = Vec::new();
            write_number_v1(&mut bytes, f64::from(hash));
            let digits = hexadecimal(&bytes);
            assert!(is_number_v1(&digits), "{hash}: {digits}");
        }
    }

    /// Computed with azure-cosmos 4.17.1 for Python.
    #[test]
    fn hashes_equal_those_of_the_official_clients() {
        check("redmond", "22E342F38A486A088463DFF7838A5963");
        check("inst-1", "23A8EFC029D44DA4A4733EF3A245AC71");
        check("", "32E9366E637A71B4E710384B2F4970A0");
        check("é", "007199F104E04116EE25AF912CA4889B");
        check(true, "0E711127C5B5A8E4726AC6DD306A3E59");
        check(1, "20CD98B339BA78A5D0CF6953B87070B0");
        check(
            ("a", "b"),
            "3A5381E1114EB8D3FCC90795045B49B7195644569A78B1E22D200348AF9416CE",
        );
    }

    #[test]
    fn boundaries_compare_as_if_padded_with_zeros() {
        let epk = Epk::from_service;
        assert_eq!(epk("1F"), epk("1f00000000"));
        assert!(epk("") < epk("0000000001"));
        assert!(epk("3FFF") < epk("FF"));
    }
}
