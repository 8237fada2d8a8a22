//! The text that a master key signs, and the signature.
//!
//! Rule: "Access control in the Azure Cosmos DB SQL API", section on master keys. Only the verb,
//! the type and the date are in lower case; the link keeps its case and is never percent-encoded.
//! The text ends with two line feeds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::credential::SigningContext;

/// Returns the text to sign.
pub(crate) fn text_to_sign(context: &SigningContext<'_>) -> String {
    format!(
        "{}\n{}\n{}\n{}\n\n",
        context.verb.as_str().to_ascii_lowercase(),
        context.resource_type.to_ascii_lowercase(),
        context.resource_link,
        context.date.to_ascii_lowercase()
    )
}

/// Signs `text` with a decoded account key, in base64 with padding. Never `None`: HMAC accepts keys
/// of any length.
#[cfg(not(feature = "fips"))]
pub(crate) fn signature(key: &[u8], text: &str) -> Option<String> {
    use hmac::{Hmac, KeyInit as _, Mac as _};

    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).ok()?;
    mac.update(text.as_bytes());
    Some(STANDARD.encode(mac.finalize().into_bytes()))
}

/// Signs `text` in the validated module.
#[cfg(feature = "fips")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the signature of the other implementation"
)]
pub(crate) fn signature(key: &[u8], text: &str) -> Option<String> {
    use aws_lc_rs::hmac;

    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    Some(STANDARD.encode(hmac::sign(&key, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    /// Key, link and date of Microsoft's published example.
    const KEY: &str =
        "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";

    fn published() -> SigningContext<'static> {
        SigningContext {
            verb: &Method::GET,
            resource_type: "dbs",
            resource_link: "dbs/ToDoList",
            date: "Thu, 27 Apr 2017 00:51:12 GMT",
        }
    }

    #[test]
    fn verb_type_and_date_are_in_lower_case_but_the_link_is_not() {
        assert_eq!(
            text_to_sign(&published()),
            "get\ndbs\ndbs/ToDoList\nthu, 27 apr 2017 00:51:12 gmt\n\n"
        );
    }

    #[test]
    fn the_published_example_has_the_published_signature() {
        let key = STANDARD.decode(KEY).unwrap();
        let signature = signature(&key, &text_to_sign(&published())).unwrap();
        assert_eq!(signature, "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c=");
    }

    #[test]
    fn a_write_signed_with_the_emulator_key_has_the_known_signature() {
        let key = STANDARD
            .decode("C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==")
            .unwrap();
        let text = text_to_sign(&SigningContext {
            verb: &Method::POST,
            resource_type: "docs",
            resource_link: "dbs/db1/colls/c1",
            date: "Wed, 21 Oct 2015 07:28:00 GMT",
        });
        assert_eq!(
            signature(&key, &text).unwrap(),
            "NVeoo+A8ZH7IL+TEYWzfZfAzTpKv/2XkAGLErZK+WGY="
        );
    }
}
