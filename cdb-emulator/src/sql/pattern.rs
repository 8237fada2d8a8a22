//! Patterns: `LIKE` with `%`, `_`, `[a-f]` and `[^a-f]`, and regular expressions.
//!
//! The service's regular expressions are PCRE. Here `fancy-regex` evaluates them; `\d`, `\w` and
//! `\s` are ASCII, like in PCRE.

use std::cell::RefCell;
use std::collections::HashMap;

use fancy_regex::{Regex, RegexBuilder};

use crate::protocol::ServiceError;

/// Maximum size of a compiled pattern in bytes: it bounds the work per character of a text.
const MAX_COMPILED: usize = 1024 * 1024;
/// Maximum number of steps that look-around and references may go back.
const MAX_BACKTRACKS: usize = 100_000;
/// Maximum number of compiled patterns of a query.
const KEPT: usize = 16;

/// The regular expressions that a query has compiled; `None` marks an invalid one.
#[derive(Debug, Default)]
pub(super) struct Patterns(RefCell<HashMap<(String, String), Option<Regex>>>);

/// An element of a LIKE pattern.
#[derive(Debug, PartialEq)]
enum Sign {
    /// `%`: any text.
    Any,
    /// `_`: any character.
    One,
    Letter(char),
    /// `[…]` or, negated, `[^…]`: ranges of characters.
    Set(bool, Vec<(char, char)>),
}

/// Returns whether a text matches a `LIKE` pattern. A character after the escape character is
/// literal.
pub(super) fn like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    let signs = signs(pattern, escape);
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut sign) = (0, 0);
    // The position of the last `%`, and the end of the text that it has matched.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match signs.get(sign) {
            Some(Sign::Any) => {
                retry = Some((sign, at));
                sign += 1;
            }
            Some(one) if one.takes(text[at]) => {
                at += 1;
                sign += 1;
            }
            _ => {
                let Some((any, matched)) = retry else {
                    return false;
                };
                retry = Some((any, matched + 1));
                at = matched + 1;
                sign = any + 1;
            }
        }
    }
    signs[sign.min(signs.len())..]
        .iter()
        .all(|sign| *sign == Sign::Any)
}

impl Sign {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Letter(known) => *known == letter,
            Self::Set(negated, ranges) => {
                let inside = |(from, to): &(char, char)| (*from..=*to).contains(&letter);
                ranges.iter().any(inside) != *negated
            }
        }
    }
}

fn signs(pattern: &str, escape: Option<char>) -> Vec<Sign> {
    let letters: Vec<char> = pattern.chars().collect();
    let mut signs = Vec::new();
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        at += 1;
        let sign = match letter {
            _ if Some(letter) == escape => {
                let literal = letters.get(at).copied().unwrap_or(letter);
                at += 1;
                Sign::Letter(literal)
            }
            '%' => Sign::Any,
            '_' => Sign::One,
            '[' => match letters[at..].iter().skip(1).position(|c| *c == ']') {
                // A set has at least one character: `[]]` is the literal bracket.
                Some(length) => {
                    let inside = &letters[at..=at + length];
                    at += length + 2;
                    set(inside)
                }
                None => Sign::Letter(letter),
            },
            _ => Sign::Letter(letter),
        };
        signs.push(sign);
    }
    signs
}

fn set(inside: &[char]) -> Sign {
    let (negated, mut letters) = match inside {
        ['^', rest @ ..] if !rest.is_empty() => (true, rest),
        all => (false, all),
    };
    let mut ranges = Vec::new();
    loop {
        letters = match letters {
            [from, '-', to, rest @ ..] => {
                ranges.push((*from, *to));
                rest
            }
            [one, rest @ ..] => {
                ranges.push((*one, *one));
                rest
            }
            [] => return Sign::Set(negated, ranges),
        };
    }
}

impl Patterns {
    /// Returns whether a text matches a regular expression, or `None` when the expression or a
    /// modifier is invalid. Fails when look-around or references take too many steps.
    pub(super) fn is_match(
        &self,
        text: &str,
        pattern: &str,
        modifiers: &str,
    ) -> Result<Option<bool>, ServiceError> {
        let mut patterns = self.0.borrow_mut();
        let key = (pattern.to_owned(), modifiers.to_owned());
        if !patterns.contains_key(&key) {
            if patterns.len() >= KEPT {
                patterns.clear();
            }
            patterns.insert(key.clone(), compile(pattern, modifiers));
        }
        let compiled = patterns.get(&key).and_then(Option::as_ref);
        let matched = compiled.map(|compiled| compiled.is_match(text)).transpose();
        matched.map_err(|_| {
            ServiceError::bad_request(format!(
                "The regular expression '{pattern}' takes too many steps; simplify it."
            ))
        })
    }
}

/// Compiles a regular expression; `None` when it or a modifier is invalid.
fn compile(pattern: &str, modifiers: &str) -> Option<Regex> {
    if !modifiers.chars().all(|modifier| "imsx".contains(modifier)) {
        return None;
    }
    let has = |modifier: char| modifiers.contains(modifier);
    RegexBuilder::new(&with_ascii_classes(pattern))
        .case_insensitive(has('i'))
        .multi_line(has('m'))
        .dot_matches_new_line(has('s'))
        .ignore_whitespace(has('x'))
        .delegate_size_limit(MAX_COMPILED)
        .backtrack_limit(MAX_BACKTRACKS)
        .build()
        .ok()
}

/// Replaces the shorthands `\d`, `\w` and `\s`, which are Unicode classes in `fancy-regex`, by
/// their ASCII classes.
fn with_ascii_classes(pattern: &str) -> String {
    let mut replaced = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let escaped = if letter == '\\' { letters.next() } else { None };
        match escaped {
            Some('d') => replaced.push_str("[0-9]"),
            Some('D') => replaced.push_str("[^0-9]"),
            Some('w') => replaced.push_str("[0-9A-Za-z_]"),
            Some('W') => replaced.push_str("[^0-9A-Za-z_]"),
            Some('s') => replaced.push_str("[\\t\\n\\x0B\\f\\r ]"),
            Some('S') => replaced.push_str("[^\\t\\n\\x0B\\f\\r ]"),
            other => {
                replaced.push(letter);
                replaced.extend(other);
            }
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_supports_wildcards_and_sets() {
        for (text, pattern, expected) in [
            ("order-1", "order%", true),
            ("order-1", "%1", true),
            ("order-1", "o_der__", true),
            ("order-1", "order", false),
            ("", "%", true),
            ("", "", true),
            ("a", "", false),
            ("abc", "%b%", true),
            ("abcabd", "%abd", true),
            ("sod", "so[a-f]", true),
            ("sox", "so[a-f]", false),
            ("sox", "so[^a-f]", true),
            ("20-30%", "20-30[%]", true),
            ("20-300", "20-30[%]", false),
            ("_n", "[_]n", true),
            ("[", "[[]", true),
            ("]", "]", true),
            ("[a", "[a", true),
            ("]", "[]]", true),
        ] {
            assert_eq!(like(text, pattern, None), expected, "{text} LIKE {pattern}");
        }
        assert!(like("20%", "20^%", Some('^')));
        assert!(!like("200", "20^%", Some('^')));
    }

    fn matches(text: &str, pattern: &str, modifiers: &str) -> Option<bool> {
        let matched = Patterns::default().is_match(text, pattern, modifiers);
        matched.expect("few steps")
    }

    #[test]
    fn regular_expressions_are_those_of_pcre() {
        for (text, pattern, expected) in [
            ("ab", "a(?=b)", true),
            ("ac", "a(?=b)", false),
            ("ba", "(?<!b)a", false),
            ("aa", "^(a)\\1$", true),
            ("É", "^\\p{Lu}$", true),
            ("٣", "\\d", false),
            ("é", "[\\w-]", false),
            ("é", "[^\\W]", false),
            ("\u{a0}", "\\s", false),
            ("a\tb", "^\\S\\s\\S$", true),
            ("\\d", "^\\\\d$", true),
        ] {
            let found = matches(text, pattern, "");
            assert_eq!(found, Some(expected), "{text} ~ {pattern}");
        }
        assert_eq!(matches("A\nb", "a.B", "is"), Some(true));
        assert_eq!(matches("a", "(a", ""), None);
        assert_eq!(matches("a", "a", "z"), None);
    }

    #[test]
    fn a_regular_expression_with_too_many_steps_fails() {
        let patterns = Patterns::default();
        let refused = patterns.is_match(&"x".repeat(60), "(x+x+)+(?=y)z", "");
        assert_eq!(refused.expect_err("too many steps").status, 400);
    }
}
