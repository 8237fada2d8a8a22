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
