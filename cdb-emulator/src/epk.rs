//! Effective partition keys: the position of a partition key value in the hash space (version 2 and
//! hierarchical).
//!
//! Each component is encoded with a type byte and hashed with MurmurHash3 (x64, 128 bits, seed 0).
//! The two highest bits of the hash are cleared.

use serde_json::Value;

/// The end of the hash space, exclusive.
pub(crate) const MAX: &str = "FF";

/// Returns the effective partition key of a value with one component per level; `None` stands for
/// undefined.
pub(crate) fn effective_partition_key(components: &[Option<Value>]) -> String {
    let digits = |component: &Option<Value>| {
        let mut bytes = Vec::new();
        write_component(&mut bytes, component.as_ref());
        let hash = murmur3::murmur3_x64_128(&mut bytes.as_slice(), 0);
        let hash = hash.expect("reading from a slice does not fail");
        format!("{:032X}", hash & (u128::MAX >> 2))
    };
    components.iter().map(digits).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_equal_those_of_the_python_client() {
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
