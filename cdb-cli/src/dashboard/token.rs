//! The token that authorizes requests for data and changes.

/// The secret that a request for data or a change must carry: 122 random bits, created at the start
/// and printed only in the terminal.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares a text with this token, every byte, so that the time does not reveal the first
    /// difference.
    pub(super) fn matches(&self, given: &[u8]) -> bool {
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
        assert!(token.matches(b"abc"));
        for wrong in ["abcd", "ab", "", "abd"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("abc"));
        assert_ne!(Token::random().as_str(), Token::random().as_str());
    }
}
