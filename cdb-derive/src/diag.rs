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

/// How many letters must be added, dropped, replaced or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, other) | (other, 0) => other,
                _ => {
                    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let one_more = rows[i - 1][j].min(rows[i][j - 1]) + 1;
                    let swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swapped = if swaps {
                        rows[i - 2][j - 2] + 1
                    } else {
                        usize::MAX
                    };
                    replaced.min(one_more).min(swapped)
                }
            };
        }
    }
    rows[a.len()][b.len()]
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
        assert_eq!(nearest("nubmer", &known), "; did you mean `number`?");
        assert_eq!(nearest("customer", &known), "");
    }
}
