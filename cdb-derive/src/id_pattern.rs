//! Id patterns: `"{instance_id}:order:{number}"` into segments.
//!
//! A placeholder ends at the next separator, because escaped components never contain one. So between two placeholders,
//! and after every placeholder, a literal must start with a separator. That also lets two patterns be compared.
//! What a literal may hold follows `cdb_model`'s module `id`, which escapes the same characters in components.

use std::fmt;

/// What may end a component; the same set as `cdb_model::SEPARATORS`.
const SEPARATORS: [char; 4] = [':', '|', ';', ','];

/// As in `cdb_model::limits`, which a derive cannot name.
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

/// Splits a pattern; the text of what is wrong with it otherwise.
pub(crate) fn parse(pattern: &str) -> Result<Vec<Segment>, String> {
    let mut segments = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let (segment, after) = match rest.strip_prefix('{') {
            Some(inner) => placeholder(inner, segments.last())?,
            None => literal(rest, segments.last())?,
        };
        segments.push(segment);
        rest = after;
    }
    check_whole(pattern, &segments)?;
    Ok(segments)
}

/// Takes `name}` off the front of `inner`.
fn placeholder<'a>(inner: &'a str, before: Option<&Segment>) -> Result<(Segment, &'a str), String> {
    let (name, after) = inner
        .split_once('}')
        .ok_or_else(|| format!("`{{{inner}` has no closing brace"))?;
    if name.is_empty() {
        return Err("`{}` names no field; write `{field}`".to_owned());
    }
    if let Some(Segment::Field(before)) = before {
        return Err(format!(
            "`{{{before}}}{{{name}}}` cannot be told apart; put a separator between them, one of : | ; ,"
        ));
    }
    Ok((Segment::Field(name.to_owned()), after))
}

/// Takes everything up to the next placeholder off the front of `rest`.
fn literal<'a>(rest: &'a str, before: Option<&Segment>) -> Result<(Segment, &'a str), String> {
    let illegal =
        |c: &char| c.is_control() || matches!(c, '/' | '\\' | '?' | '#' | '%' | '~' | '}');
    let (literal, after) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
    if let Some(c) = literal.chars().find(illegal) {
        return Err(format!(
            "`{}` cannot stand in an id; separate with one of : | ; ,",
            c.escape_default()
        ));
    }
    if let Some(Segment::Field(name)) = before
        && !literal.starts_with(SEPARATORS)
    {
        return Err(format!(
            "after `{{{name}}}` a separator must follow, one of : | ; , instead of `{literal}`"
        ));
    }
    Ok((Segment::Literal(literal.to_owned()), after))
}

/// What the service and its gateways say about the id as a whole.
fn check_whole(pattern: &str, segments: &[Segment]) -> Result<(), String> {
    if segments.is_empty() {
        return Err("an id cannot be empty; name the fields that make it unique".to_owned());
    }
    if matches!(pattern, "." | "..") {
        return Err(format!(
            "`{pattern}` is a step in a URL and cannot be an id"
        ));
    }
    if pattern.ends_with(' ') {
        return Err("an id cannot end in a space".to_owned());
    }
    let literals = segments.iter().map(|segment| match segment {
        Segment::Literal(text) => text.len(),
        Segment::Field(_) => 0,
    });
    let length: usize = literals.sum();
    if length > MAX_ID_BYTES {
        return Err(format!(
            "the literals alone are {length} bytes long, the service takes ids of {MAX_ID_BYTES}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_split_at_their_placeholders() {
        assert_eq!(
            parse("{instance_id}:order:{number}").unwrap(),
            [
                Segment::Field("instance_id".to_owned()),
                Segment::Literal(":order:".to_owned()),
                Segment::Field("number".to_owned()),
            ]
        );
    }

    #[test]
    fn patterns_that_cannot_be_read_back_are_refused() {
        for (pattern, reason) in [
            (
                "{a}{b}",
                "`{a}{b}` cannot be told apart; put a separator between them, one of : | ; ,",
            ),
            (
                "{a}-{b}",
                "after `{a}` a separator must follow, one of : | ; , instead of `-`",
            ),
            (
                "a/{b}",
                "`/` cannot stand in an id; separate with one of : | ; ,",
            ),
            (
                "a}{b}",
                "`}` cannot stand in an id; separate with one of : | ; ,",
            ),
            (
                "a\n{b}",
                "`\\n` cannot stand in an id; separate with one of : | ; ,",
            ),
            ("{a", "`{a` has no closing brace"),
            ("x{}", "`{}` names no field; write `{field}`"),
            (
                "",
                "an id cannot be empty; name the fields that make it unique",
            ),
            ("..", "`..` is a step in a URL and cannot be an id"),
            ("{a}: ", "an id cannot end in a space"),
        ] {
            assert_eq!(parse(pattern).unwrap_err(), reason);
        }
        let long = format!("{}:{{a}}", "x".repeat(MAX_ID_BYTES));
        assert_eq!(
            parse(&long).unwrap_err(),
            "the literals alone are 1024 bytes long, the service takes ids of 1023"
        );
    }
}
