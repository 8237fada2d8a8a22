//! Effective partition keys: where in the hash space a partition key value lies, version 2 and hierarchical.
//!
//! Each component is written with a type byte and hashed with MurmurHash3 (x64, 128 bits, seed 0); the hash is
//! reversed and its two highest bits are cleared.

use serde_json::Value;

/// The end of the hash space, exclusive.
pub(crate) const MAX: &str = "FF";

/// The effective partition key of a value with one entry per level; `None` stands for undefined.
pub(crate) fn effective_partition_key(components: &[Option<Value>]) -> String {
    let mut out = String::new();
    for component in components {
        let mut bytes = Vec::new();
        write_component(&mut bytes, component.as_ref());
        let mut hash = murmur3_128(&bytes).to_le_bytes();
        hash.reverse();
        hash[0] &= 0x3F;
        for byte in hash {
            out.push(
                char::from_digit(u32::from(byte >> 4), 16)
                    .unwrap_or('0')
                    .to_ascii_uppercase(),
            );
            out.push(
                char::from_digit(u32::from(byte & 15), 16)
                    .unwrap_or('0')
                    .to_ascii_uppercase(),
            );
        }
    }
    out
}

fn write_component(out: &mut Vec<u8>, component: Option<&Value>) {
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
            out.extend(text.as_bytes());
            out.push(0xFF);
        }
    }
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn murmur3_128(bytes: &[u8]) -> u128 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let (k1, k2) = (little_endian(&block[..8]), little_endian(&block[8..]));
        h1 ^= mix1(k1);
        h1 = h1
            .rotate_left(27)
            .wrapping_add(h2)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        h2 ^= mix2(k2);
        h2 = h2
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    if tail.len() > 8 {
        h2 ^= mix2(little_endian(&tail[8..]));
    }
    if !tail.is_empty() {
        h1 ^= mix1(little_endian(&tail[..tail.len().min(8)]));
    }
    let length = bytes.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (u128::from(h2) << 64) | u128::from(h1)
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_are_those_of_the_vendor_s_clients() {
        // Computed with azure-cosmos 4.17.1 for Python.
        for (components, expected) in [
            (
                vec![Some(json!("redmond"))],
                "22E342F38A486A088463DFF7838A5963",
            ),
            (
                vec![Some(json!("inst-1"))],
                "23A8EFC029D44DA4A4733EF3A245AC71",
            ),
            (vec![Some(json!(""))], "32E9366E637A71B4E710384B2F4970A0"),
            (vec![Some(json!("é"))], "007199F104E04116EE25AF912CA4889B"),
            (vec![Some(json!(null))], "378867E4430E67857ACE5C908374FE16"),
            (vec![Some(json!(true))], "0E711127C5B5A8E4726AC6DD306A3E59"),
            (vec![Some(json!(1))], "20CD98B339BA78A5D0CF6953B87070B0"),
            (vec![None], "11622DAA78F835834610ABE56EFF5CB5"),
            (
                vec![Some(json!("a")), Some(json!("b"))],
                "3A5381E1114EB8D3FCC90795045B49B7195644569A78B1E22D200348AF9416CE",
            ),
        ] {
            assert_eq!(
                effective_partition_key(&components),
                expected,
                "{components:?}"
            );
        }
    }
}
