//! Resource ids: the numbers of a resource and of what it is in, as the service writes them.
//!
//! Four bytes for the database, four more for the container with the highest bit set, eight more (little-endian, kind in
//! the last four bits) for what is in a container; base64 with `-` in place of `/`. Clients key their caches by them and
//! break ties of a sort by the last eight bytes (Java SDK `ResourceId`, Rust driver `models::resource_id`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What is in a container.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inside {
    Document(u64),
    Range(u64),
}

/// The resource id of a database.
pub(crate) fn of_database(database: i64) -> String {
    encode(&number(database).to_be_bytes())
}

/// The resource id of a container.
pub(crate) fn of_container((database, container): (i64, i64)) -> String {
    encode(&prefix(database, container))
}

/// The resource id of something in a container.
pub(crate) fn inside((database, container): (i64, i64), what: Inside) -> String {
    let segment = match what {
        Inside::Document(at) => at & (u64::MAX >> 4),
        Inside::Range(at) => (at & (u64::MAX >> 4)) | 0x5 << 60,
    };
    let mut bytes = prefix(database, container).to_vec();
    bytes.extend(segment.to_le_bytes());
    encode(&bytes)
}

fn prefix(database: i64, container: i64) -> [u8; 8] {
    let both = u64::from(number(database)) << 32 | u64::from(number(container) | 0x8000_0000);
    both.to_be_bytes()
}

/// Numbers of databases and containers count up from one and never come near the end.
fn number(of: i64) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX >> 1)
}

fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes).replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_begin_with_those_of_what_they_are_in() {
        // The form of the vendor's own emulator: 1 and 1|0x80000000, then the ordinal with its kind on top.
        assert_eq!(of_database(1), "AAAAAQ==");
        assert_eq!(of_container((1, 1)), "AAAAAYAAAAE=");
        assert_eq!(
            inside((1, 1), Inside::Document(2)),
            "AAAAAYAAAAECAAAAAAAAAA=="
        );
        assert_eq!(inside((1, 1), Inside::Range(0)), "AAAAAYAAAAEAAAAAAAAAUA==");
    }
}
