//! Resource ids: the numbers of a resource and its parents, in the service's form.
//!
//! A database has four bytes, a container four more with the highest bit set, and a child of a
//! container eight more (little-endian, the kind in the last four bits). The form is base64 with
//! `-` instead of `/`. Clients use resource ids as cache keys, and the last eight bytes to break
//! ties of a sort (Java SDK `ResourceId`, Rust driver `models::resource_id`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A child of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inside {
    Document(u64),
    Range(u64),
}

/// Returns the resource id of a database.
pub(crate) fn of_database(database: i64) -> String {
    encode(&number(database).to_be_bytes())
}

/// Returns the resource id of a container.
pub(crate) fn of_container(database: i64, container: i64) -> String {
    encode(&prefix(database, container))
}

/// Returns the resource id of a child of a container.
pub(crate) fn inside(database: i64, container: i64, what: Inside) -> String {
    let (at, kind) = match what {
        Inside::Document(at) => (at, 0x0),
        Inside::Range(at) => (at, 0x5),
    };
    let segment = (at & (u64::MAX >> 4)) | kind << 60;
    let mut bytes = prefix(database, container).to_vec();
    bytes.extend(segment.to_le_bytes());
    encode(&bytes)
}

/// Returns the number of a database from its resource id; `None` for a name.
pub(crate) fn database(id: &str) -> Option<i64> {
    let bytes: [u8; 4] = decode(id)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes).into())
}

/// Returns the number of a container from its resource id; `None` for a name.
pub(crate) fn container(id: &str) -> Option<i64> {
    let bytes: [u8; 8] = decode(id)?.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) & 0x7fff_ffff).cast_signed())
}

fn prefix(database: i64, container: i64) -> [u8; 8] {
    let both = u64::from(number(database)) << 32 | u64::from(number(container) | 0x8000_0000);
    both.to_be_bytes()
}

/// Converts the number of a database or container. They count up from one and do not reach the
/// limit.
fn number(of: i64) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX >> 1)
}

fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes).replace('/', "-")
}

fn decode(id: &str) -> Option<Vec<u8>> {
    STANDARD.decode(id.replace('-', "/")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_starts_with_the_id_of_its_parent() {
        // The form of Microsoft's emulator: 1 and 1|0x80000000, then the ordinal with its kind on
        // top.
        assert_eq!(of_database(1), "AAAAAQ==");
        assert_eq!(of_container(1, 1), "AAAAAYAAAAE=");
        assert_eq!(
            inside(1, 1, Inside::Document(2)),
            "AAAAAYAAAAECAAAAAAAAAA=="
        );
        assert_eq!(inside(1, 1, Inside::Range(0)), "AAAAAYAAAAEAAAAAAAAAUA==");
        assert_eq!(database("AAAAAQ=="), Some(1));
        assert_eq!(container("AAAAAYAAAAE="), Some(1));
        assert_eq!((database("shop"), container("AAAAAQ==")), (None, None));
    }
}
