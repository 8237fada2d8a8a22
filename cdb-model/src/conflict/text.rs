//! Text functions for constant evaluation, which has neither `==` nor `format!`.

/// The longest message. Longer messages are truncated.
const MAX_MESSAGE: usize = 1024;

/// Panics with the concatenated `parts`.
#[track_caller]
pub(super) const fn fail(parts: &[&str]) -> ! {
    let mut buffer = [0_u8; MAX_MESSAGE];
    let mut length = 0;
    let mut part = 0;
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut at = 0;
        while at < bytes.len() && length < MAX_MESSAGE {
            buffer[length] = bytes[at];
            length += 1;
            at += 1;
        }
        part += 1;
    }
    match core::str::from_utf8(buffer.split_at(length).0) {
        Ok(message) => panic!("{}", message),
        // Truncated inside a character.
        Err(error) => match core::str::from_utf8(buffer.split_at(error.valid_up_to()).0) {
            Ok(message) => panic!("{}", message),
            Err(_) => panic!("two document types of this container conflict"),
        },
    }
}

/// Returns a count of levels in words.
pub(super) const fn number(levels: usize) -> &'static str {
    match levels {
        1 => "1 level",
        2 => "2 levels",
        _ => "3 levels",
    }
}

pub(super) const fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && starts_with(a.as_bytes(), b.as_bytes())
}

pub(super) const fn starts_with(text: &[u8], prefix: &[u8]) -> bool {
    if prefix.len() > text.len() {
        return false;
    }
    let mut at = 0;
    while at < prefix.len() {
        if text[at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether `path` is `outer` or inside it.
pub(super) const fn is_path_within(path: &str, outer: &str) -> bool {
    starts_with(path.as_bytes(), outer.as_bytes())
        && (path.len() == outer.len() || path.as_bytes()[outer.len()] == b'/')
}

/// Whether `path` is `/property` or inside it.
pub(super) const fn is_property(path: &str, property: &str) -> bool {
    let (path, property) = (path.as_bytes(), property.as_bytes());
    let end = property.len() + 1;
    path.len() >= end
        && starts_with(path.split_at(1).1, property)
        && (path.len() == end || path[end] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_concatenates_its_parts() {
        let panic = std::panic::catch_unwind(|| fail(&["`Größe` has ", number(2), " of keys"]));
        let message = panic.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "`Größe` has 2 levels of keys");
    }

    #[test]
    fn a_long_message_is_truncated_between_characters() {
        let long = format!("{}ß", "x".repeat(MAX_MESSAGE - 1));
        let panic = std::panic::catch_unwind(|| fail(&[&long]));
        let message = panic.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, "x".repeat(MAX_MESSAGE - 1));
    }

    #[test]
    fn paths_are_compared_by_whole_segments() {
        assert!(is_path_within("/a/b", "/a"));
        assert!(is_path_within("/a", "/a"));
        assert!(!is_path_within("/ab", "/a"));
        assert!(is_property("/type", "type"));
        assert!(is_property("/type/name", "type"));
        assert!(!is_property("/types", "type"));
        assert!(!is_property("/a", "type"));
    }
}
