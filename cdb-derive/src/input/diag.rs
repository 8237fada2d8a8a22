//! Creates all diagnostics: the place, the mistake, and what to write instead.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::Span;

/// Returns a diagnostic at one token.
pub(crate) fn mistake(span: Span, text: impl std::fmt::Display) -> Error {
    Error::custom(text).with_span(&span)
}

/// Returns `; did you mean …?` if a known name is similar to `name`, else an empty text.
pub(crate) fn suggestion(name: &str, known: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let closest = known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(name, candidate.as_ref()), candidate))
        .min_by_key(|(distance, _)| *distance);
    match closest {
        Some((distance, candidate)) if distance * 3 <= name.len().max(3) => {
            format!("; did you mean `{}`?", candidate.as_ref())
        }
        _ => String::new(),
    }
}

/// Adds a mistake unless a condition holds.
pub(crate) trait Mistakes {
    fn unless(&mut self, fine: bool, span: Span, text: impl FnOnce() -> String);
}

impl Mistakes for Accumulator {
    fn unless(&mut self, fine: bool, span: Span, text: impl FnOnce() -> String) {
        if !fine {
            self.push(mistake(span, text()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_name_is_suggested() {
        let suggestion = |name| suggestion(name, ["instance_id", "number"]);
        assert_eq!(suggestion("instnce_id"), "; did you mean `instance_id`?");
        assert_eq!(suggestion("nubmer"), "; did you mean `number`?");
        assert_eq!(suggestion("customer"), "");
    }
}
