//! The resource of a request: the link that is signed, and the path that is sent.
//!
//! The link contains raw names and ids; the path contains each of them percent-encoded exactly
//! once. The id `a%41` is signed as `a%41` and sent as `a%2541`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

/// Everything except RFC 3986's unreserved characters.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The longest name of a database or container.
const MAX_NAME_BYTES: usize = 255;

/// The resource of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// `dbs`, `colls`, `docs` or `pkranges`, as in the signature; empty for the account.
    pub kind: &'static str,
    /// The signed link: raw names, no slash at either end.
    pub link: String,
    /// The sent path: begins with a slash.
    pub path: String,
}

impl Resource {
    /// The account document.
    pub(crate) fn account() -> Self {
        Self {
            kind: "",
            link: String::new(),
            path: "/".to_owned(),
        }
    }

    /// The collection of an account's databases.
    pub(crate) fn databases() -> Self {
        Self {
            kind: "dbs",
            link: String::new(),
            path: "/dbs".to_owned(),
        }
    }

    /// A database.
    pub(crate) fn database(database: &str) -> Self {
        Self {
            kind: "dbs",
            link: format!("dbs/{database}"),
            path: format!("/dbs/{}", segment(database)),
        }
    }

    /// The containers of a database.
    pub(crate) fn containers(database: &str) -> Self {
        Self::database(database).children("colls")
    }

    /// A container.
    pub(crate) fn container(database: &str, container: &str) -> Self {
        Self {
            kind: "colls",
            link: format!("dbs/{database}/colls/{container}"),
            path: format!("/dbs/{}/colls/{}", segment(database), segment(container)),
        }
    }

    /// The items of this container: the target of creates, queries, batches and feeds.
    pub(crate) fn items(&self) -> Self {
        self.clone().children("docs")
    }

    /// The physical partitions of this container.
    pub(crate) fn ranges(&self) -> Self {
        self.clone().children("pkranges")
    }

    /// An item of this container.
    ///
    /// # Errors
    /// When a URL cannot contain the id: HTTP software interprets `.` and `..` as path steps.
    pub(crate) fn item(&self, id: &str) -> Result<Self> {
        if matches!(id, "" | "." | "..") {
            return Err(Error::configuration(format!(
                "item id `{id}` cannot be part of a URL; reach the item with a query or a batch"
            )));
        }
        Ok(Self {
            kind: "docs",
            link: format!("{}/docs/{id}", self.link),
            path: format!("{}/docs/{}", self.path, segment(id)),
        })
    }

    /// The collection of children of one kind. It is signed with the link of its parent.
    fn children(self, kind: &'static str) -> Self {
        Self {
            kind,
            path: format!("{}/{kind}", self.path),
            link: self.link,
        }
    }
}

fn segment(raw: &str) -> String {
    utf8_percent_encode(raw, SEGMENT).to_string()
}

/// Checks the name of a database or container before anything is sent.
///
/// # Errors
/// When the service would refuse the name, or could not find it again.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let refused = |why: &str| Err(Error::configuration(format!("{what} name `{name}` {why}")));
    if name.is_empty() {
        return refused("is empty");
    }
    if name.len() > MAX_NAME_BYTES {
        return refused("is longer than 255 bytes");
    }
    if name.ends_with(' ') {
        return refused("ends in a space");
    }
    if matches!(name, "." | "..") {
        return refused("cannot be part of a URL");
    }
    match name
        .chars()
        .find(|&c| c.is_control() || matches!(c, '/' | '\\' | '?' | '#'))
    {
        Some(c) => refused(&format!("contains {c:?}, which the service does not allow")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: &str, path: &str) {
        let item = Resource::container("db 1", "c").item(id).unwrap();
        assert_eq!(item.path, format!("/dbs/db%201/colls/c/docs/{path}"));
        assert_eq!(item.link, format!("dbs/db 1/colls/c/docs/{id}"));
    }

    #[test]
    fn an_id_is_encoded_once_in_the_path_and_never_in_the_link() {
        check("plain-Id_1.0~", "plain-Id_1.0~");
        check("item%41", "item%2541");
        check("..%20", "..%2520");
        check("a:b|c;d,e", "a%3Ab%7Cc%3Bd%2Ce");
        check("a+b@c", "a%2Bb%40c");
        check("größe", "gr%C3%B6%C3%9Fe");
        check("a/b", "a%2Fb");
    }

    #[test]
    fn an_id_that_a_url_cannot_contain_is_refused() {
        for id in [".", "..", ""] {
            assert!(Resource::container("d", "c").item(id).is_err(), "{id}");
        }
    }

    #[test]
    fn collections_are_signed_with_the_link_of_their_parent() {
        let container = Resource::container("d", "c");
        assert_eq!(container.items().link, "dbs/d/colls/c");
        assert_eq!(container.items().kind, "docs");
        assert_eq!(container.ranges().path, "/dbs/d/colls/c/pkranges");
        assert_eq!(Resource::containers("d").link, "dbs/d");
        assert_eq!(Resource::databases().link, "");
    }

    #[test]
    fn an_invalid_name_is_refused_with_the_reason() {
        let refusal = |name: &str| check_name("container", name).unwrap_err().to_string();
        assert_eq!(refusal(""), "container name `` is empty");
        assert!(refusal("a/b").contains("'/'"));
        assert!(refusal(&"x".repeat(256)).contains("255"));
        assert!(refusal("x ").contains("space"));
        check_name("container", "orders-2026").unwrap();
    }

    proptest::proptest! {
        #[test]
        fn any_id_arrives_unchanged_at_the_server(id in "\\PC{1,40}|[./%~ a]{1,8}") {
            proptest::prop_assume!(id != "." && id != "..");
            let item = Resource::container("d", "c").item(&id).unwrap();
            let url = format!("https://host{}", item.path);
            // Parses as any HTTP stack does, which also normalizes dot segments.
            let parsed = reqwest::Url::parse(&url).unwrap();
            proptest::prop_assert_eq!(parsed.as_str(), &url);
            let last = parsed.path_segments().unwrap().next_back().unwrap();
            let decoded = percent_encoding::percent_decode_str(last).decode_utf8().unwrap();
            proptest::prop_assert_eq!(decoded, id);
        }
    }
}
