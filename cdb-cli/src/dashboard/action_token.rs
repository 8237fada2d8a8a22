//! The token that allows the page to change something.

use axum::http::header::HeaderValue;

/// The secret that a request for a change must carry: 122 random bits, made at the start and shown in the terminal only.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a header carries this token. Compares every byte, so that the time does not depend on the first difference.
    pub(super) fn is(&self, given: Option<&HeaderValue>) -> bool {
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
    fn a_token_is_all_of_itself_and_is_not_shown() {
        let token = Token("abc".to_owned());
        let is = |text: &str| token.is(Some(&HeaderValue::from_str(text).unwrap()));
        assert!(is("abc"));
        assert!(!is("abcd") && !is("ab") && !is("") && !is("abd") && !token.is(None));
        assert!(!format!("{token:?}").contains("abc"));
        assert_ne!(Token::random().as_str(), Token::random().as_str());
    }
}
