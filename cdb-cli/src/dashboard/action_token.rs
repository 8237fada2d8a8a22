//! The token that authorizes changes.

use axum::http::header::HeaderValue;

/// The secret that a request for a change must carry: 122 random bits, created at the start and
/// printed only in the terminal.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares a header with this token, every byte, so that the time does not reveal the first
    /// difference.
    pub(super) fn matches(&self, given: Option<&HeaderValue>) -> bool {
        let given = given.map_or(&[][..], HeaderValue::as_bytes);
        let differences = self
            .0
            .bytes()
            .zip(given)
            .filter(|(expected, found)| expected != *found);
        differences.count() == 0 && given.len() == self.0.len()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<redacted>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_matches_only_itself_and_is_redacted() {
        let token = Token("abc".to_owned());
        let matches = |text: &str| token.matches(Some(&HeaderValue::from_str(text).unwrap()));
        assert!(matches("abc"));
        for wrong in ["abcd", "ab", "", "abd"] {
            assert!(!matches(wrong), "{wrong}");
        }
        assert!(!token.matches(None));
        assert!(!format!("{token:?}").contains("abc"));
        assert_ne!(Token::random().as_str(), Token::random().as_str());
    }
}
