//! The only maker of diagnostics: where, what is wrong, what to write.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::Span;

/// A mistake at one token.
pub(crate) fn mistake(span: Span, text: impl std::fmt::Display) -> Error {
    Error::custom(text).with_span(&span)
}

/// `; did you mean …?` when a known name is close to `name`, else nothing.
pub(crate) fn nearest(name: &str, known: &[String]) -> String {
    let closest = known
        .iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .min_by_key(|(distance, _)| *distance);
    match closest {
        Some((distance, candidate)) if distance * 3 <= name.len().max(3) => {
            format!("; did you mean `{candidate}`?")
        }
        _ => String::new(),
    }
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Adds a mistake when a condition holds.
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
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let known = ["instance_id".to_owned(), "number".to_owned()];
        assert_eq!(
            nearest("instnce_id", &known),
            "; did you mean `instance_id`?"
        );
        assert_eq!(nearest("customer", &known), "");
    }
}
