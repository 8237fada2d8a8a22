//! The effective partition key (EPK): the hash of a partition key, in the space that physical
//! partitions divide.
//!
//! Hash of partition key version 2: MurmurHash3 (x64, 128 bits, seed 0) over a type marker and the
//! value, bytes reversed, the two highest bits cleared, as upper-case hexadecimal. Hierarchical
//! keys hash each level and concatenate the hashes. Source: azure_data_cosmos_driver
//! `effective_partition_key.rs`. The gateway computes the hash itself; the client needs it to group
//! operations by physical partition.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use cdb_model::{PartitionKey, PartitionKeyValue};

/// A point in the hash space, in hexadecimal digits. The space starts at `""` and ends before `FF`.
#[derive(Clone, Debug)]
pub(crate) struct Epk(String);

impl Epk {
    /// Reads a boundary of a range in the service's notation.
    pub(crate) fn from_service(digits: &str) -> Self {
        Self(digits.to_ascii_uppercase())
    }

    /// Returns the hash of a full partition key; `None` for a kind of value that this version
    /// cannot hash.
    pub(crate) fn of(key: &PartitionKey) -> Option<Self> {
        let mut digits = String::with_capacity(32 * key.values().len());
        for value in key.values() {
            // Writing to a String cannot fail.
            let _written = write!(digits, "{:032X}", hash(&encode(value)?));
        }
        Some(Self(digits))
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

fn encode(value: &PartitionKeyValue) -> Option<Vec<u8>> {
    Some(match value {
        PartitionKeyValue::Bool(false) => vec![0x02],
        PartitionKeyValue::Bool(true) => vec![0x03],
        PartitionKeyValue::Integer(number) => {
            let mut bytes = vec![0x05];
            bytes.extend_from_slice(&exact_double(*number)?.to_le_bytes());
            bytes
        }
        PartitionKeyValue::String(text) => {
            let mut bytes = vec![0x08];
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0xFF);
            bytes
        }
        _ => return None,
    })
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

fn hash(bytes: &[u8]) -> [u8; 16] {
    let (low, high) = murmur3_x64_128(bytes);
    let mut out = [0; 16];
    out[..8].copy_from_slice(&high.to_be_bytes());
    out[8..].copy_from_slice(&low.to_be_bytes());
    out[0] &= 0x3F;
    out
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// MurmurHash3 by Austin Appleby, public domain, variant x64 with 128 bits, seed 0.
fn murmur3_x64_128(bytes: &[u8]) -> (u64, u64) {
    let mut h1 = 0_u64;
    let mut h2 = 0_u64;
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let (low, high) = block.split_at(8);
        h1 ^= scramble1(little_endian(low));
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= scramble2(little_endian(high));
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let rest = blocks.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    h1 ^= scramble1(little_endian(low));
    h2 ^= scramble2(little_endian(high));
    finish(h1, h2, u64::try_from(bytes.len()).unwrap_or(u64::MAX))
}

/// Reads up to eight bytes. Missing bytes are zero, and a zero scrambles to zero.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| (number << 8) | u64::from(byte))
}

fn scramble1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut h1: u64, mut h2: u64, length: u64) -> (u64, u64) {
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = avalanche(h1);
    h2 = avalanche(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2)
}

fn avalanche(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: impl Into<PartitionKey>, digits: &str) {
        assert_eq!(Epk::of(&key.into()).unwrap().to_string(), digits);
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
