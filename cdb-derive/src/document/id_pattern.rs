//! Parses id patterns such as `"{instance_id}:order:{number}"` into segments.
//!
//! A placeholder ends at the next separator, because escaped components never contain one. A
//! literal after a placeholder must therefore start with a separator. This also makes two patterns
//! comparable. The characters that a literal must not contain are those that `cdb_model`'s module
//! `id` escapes in components.

use std::fmt;

/// The characters that end a component: `cdb_model::value::SEPARATORS`, which a derive cannot use.
const SEPARATORS: [char; 4] = [':', '|', ';', ','];

/// The limit of `cdb_model::limits`, which a derive cannot use.
const MAX_ID_BYTES: usize = 1023;

/// A segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(String),
    Field(String),
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Field(name) => write!(f, "{{{name}}}"),
        }
    }
}

/// Splits a pattern. Adds the texts of the diagnostics to `mistakes`.
pub(crate) fn parse(pattern: &str, mistakes: &mut Vec<String>) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let (segment, after) = if let Some(inner) = rest.strip_prefix('{') {
            let Some((name, after)) = inner.split_once('}') else {
                mistakes.push(format!("`{rest}` has no closing brace"));
                break;
            };
            (Segment::Field(name.to_owned()), after)
        } else {
            let (literal, after) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
            (Segment::Literal(literal.to_owned()), after)
        };
        check_segment(&segment, segments.last(), mistakes);
        segments.push(segment);
        rest = after;
    }
    check_whole(pattern, &segments, mistakes);
    segments
}

fn check_segment(segment: &Segment, before: Option<&Segment>, mistakes: &mut Vec<String>) {
    let illegal =
        |c: &char| c.is_control() || matches!(c, '/' | '\\' | '?' | '#' | '%' | '~' | '}');
    match segment {
        Segment::Field(name) if name.is_empty() => {
            mistakes.push("`{}` has no field; write `{field}`".to_owned());
        }
        Segment::Field(_) => {}
        Segment::Literal(literal) => {
            let found = literal.chars().find(illegal);
            mistakes.extend(found.map(|c| {
                let c = c.escape_default();
                format!("an id cannot contain `{c}`; separate with one of : | ; ,")
            }));
        }
    }
    match (before, segment) {
        (Some(Segment::Field(_)), Segment::Literal(text)) if text.starts_with(SEPARATORS) => {}
        (Some(before @ Segment::Field(_)), Segment::Literal(text)) => mistakes.push(format!(
            "`{before}` must be followed by a separator, one of : | ; , instead of `{text}`"
        )),
        (Some(before @ Segment::Field(_)), field) => mistakes.push(format!(
            "`{before}{field}` is ambiguous; put a separator between them, one of : | ; ,"
        )),
        (Some(Segment::Literal(_)) | None, _) => {}
    }
}

/// Checks the rules of the service and its gateways for the whole id.
fn check_whole(pattern: &str, segments: &[Segment], mistakes: &mut Vec<String>) {
    if pattern.is_empty() {
        mistakes.push("an id cannot be empty; name the fields that make it unique".to_owned());
    }
    if matches!(pattern, "." | "..") {
        mistakes.push(format!(
            "`{pattern}` is a path step in a URL and cannot be an id"
        ));
    }
    if pattern.ends_with(' ') {
        mistakes.push("an id cannot end in a space".to_owned());
    }
    let literals = segments.iter().map(|segment| match segment {
        Segment::Literal(text) => text.len(),
        Segment::Field(_) => 0,
    });
    let length: usize = literals.sum();
    if length > MAX_ID_BYTES {
        mistakes.push(format!(
            "the literals have {length} bytes; the service allows ids of at most {MAX_ID_BYTES}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_split_at_their_placeholders() {
        let mut mistakes = Vec::new();
        assert_eq!(
            parse("{instance_id}:order:{number}", &mut mistakes),
            [
                Segment::Field("instance_id".to_owned()),
                Segment::Literal(":order:".to_owned()),
                Segment::Field("number".to_owned()),
            ]
        );
        assert!(mistakes.is_empty());
    }

    fn mistakes(pattern: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        parse(pattern, &mut mistakes);
        mistakes
    }

    #[test]
    fn all_mistakes_of_a_pattern_are_reported() {
        assert_eq!(
            mistakes("a/{}{b}-{c "),
            [
                "an id cannot contain `/`; separate with one of : | ; ,",
                "`{}` has no field; write `{field}`",
                "`{}{b}` is ambiguous; put a separator between them, one of : | ; ,",
                "`{b}` must be followed by a separator, one of : | ; , instead of `-`",
                "`{c ` has no closing brace",
                "an id cannot end in a space",
            ]
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_parsed_back_is_refused() {
        for (pattern, reason) in [
            (
                "{a}{b}",
                "`{a}{b}` is ambiguous; put a separator between them, one of : | ; ,",
            ),
            (
                "{a}-{b}",
                "`{a}` must be followed by a separator, one of : | ; , instead of `-`",
            ),
            (
                "a/{b}",
                "an id cannot contain `/`; separate with one of : | ; ,",
            ),
            (
                "a}{b}",
                "an id cannot contain `}`; separate with one of : | ; ,",
            ),
            (
                "a\n{b}",
                "an id cannot contain `\\n`; separate with one of : | ; ,",
            ),
            ("{a", "`{a` has no closing brace"),
            ("x{}", "`{}` has no field; write `{field}`"),
            (
                "",
                "an id cannot be empty; name the fields that make it unique",
            ),
            ("..", "`..` is a path step in a URL and cannot be an id"),
            ("{a}: ", "an id cannot end in a space"),
        ] {
            assert_eq!(mistakes(pattern), [reason]);
        }
        let long = format!("{}:{{a}}", "x".repeat(MAX_ID_BYTES));
        assert_eq!(
            mistakes(&long),
            ["the literals have 1024 bytes; the service allows ids of at most 1023"]
        );
    }
}
