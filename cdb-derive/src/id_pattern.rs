//! Parses id patterns such as `"{instance_id}:order:{number}"` into segments.
//!
//! A placeholder ends at the next separator, because escaped components never contain one. A
//! literal after a placeholder must therefore start with a separator. This also makes two patterns
//! comparable. The characters that a literal must not contain are those that `cdb_model`'s module
//! `id` escapes in components.

use std::fmt;

/// The characters that end a component: `cdb_model::SEPARATORS`, which a derive cannot use.
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

/// Splits a pattern. Returns the text of the diagnostic if the pattern is invalid.
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

/// Reads `name}` from the front of `inner`.
fn placeholder<'a>(inner: &'a str, before: Option<&Segment>) -> Result<(Segment, &'a str), String> {
    let (name, after) = inner
        .split_once('}')
        .ok_or_else(|| format!("`{{{inner}` has no closing brace"))?;
    if name.is_empty() {
        return Err("`{}` has no field; write `{field}`".to_owned());
    }
    if let Some(Segment::Field(before)) = before {
        return Err(format!(
            "`{{{before}}}{{{name}}}` is ambiguous; put a separator between them, one of : | ; ,"
        ));
    }
    Ok((Segment::Field(name.to_owned()), after))
}

/// Reads everything before the next placeholder from the front of `rest`.
fn literal<'a>(rest: &'a str, before: Option<&Segment>) -> Result<(Segment, &'a str), String> {
    let illegal =
        |c: &char| c.is_control() || matches!(c, '/' | '\\' | '?' | '#' | '%' | '~' | '}');
    let (literal, after) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
    if let Some(c) = literal.chars().find(illegal) {
        return Err(format!(
            "an id cannot contain `{}`; separate with one of : | ; ,",
            c.escape_default()
        ));
    }
    if let Some(Segment::Field(name)) = before
        && !literal.starts_with(SEPARATORS)
    {
        return Err(format!(
            "`{{{name}}}` must be followed by a separator, one of : | ; , instead of `{literal}`"
        ));
    }
    Ok((Segment::Literal(literal.to_owned()), after))
}

/// Checks the rules of the service and its gateways for the whole id.
fn check_whole(pattern: &str, segments: &[Segment]) -> Result<(), String> {
    if segments.is_empty() {
        return Err("an id cannot be empty; name the fields that make it unique".to_owned());
    }
    if matches!(pattern, "." | "..") {
        return Err(format!(
            "`{pattern}` is a path step in a URL and cannot be an id"
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
            "the literals have {length} bytes; the service allows ids of at most {MAX_ID_BYTES}"
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
            assert_eq!(parse(pattern).unwrap_err(), reason);
        }
        let long = format!("{}:{{a}}", "x".repeat(MAX_ID_BYTES));
        assert_eq!(
            parse(&long).unwrap_err(),
            "the literals have 1024 bytes; the service allows ids of at most 1023"
        );
    }
}
