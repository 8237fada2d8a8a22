//! Id patterns: `"{instance_id}:order:{number}"` into segments.
//!
//! A placeholder ends at the next separator, because escaped components never contain one. So between two placeholders,
//! and after every placeholder, a literal must start with a separator. That also lets two patterns be compared.

/// What may end a component; the same set as `cdb_model::SEPARATORS`.
const SEPARATORS: [char; 4] = [':', '|', ';', ','];

/// A segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Literal(String),
    Field(String),
}

/// Splits a pattern; the text of what is wrong with it otherwise.
pub(crate) fn parse(pattern: &str) -> Result<Vec<Segment>, String> {
    let mut segments = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('{') {
            let (name, after) = inner
                .split_once('}')
                .ok_or_else(|| format!("`{{{inner}` has no closing brace"))?;
            if name.is_empty() {
                return Err("`{}` names no field; write `{field}`".to_owned());
            }
            if let Some(Segment::Field(before)) = segments.last() {
                return Err(format!(
                    "`{{{before}}}{{{name}}}` cannot be told apart; put a separator between them, one of : | ; ,"
                ));
            }
            segments.push(Segment::Field(name.to_owned()));
            rest = after;
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            let (literal, after) = rest.split_at(end);
            check_literal(literal, segments.last())?;
            segments.push(Segment::Literal(literal.to_owned()));
            rest = after;
        }
    }
    if segments.is_empty() {
        return Err("an id cannot be empty; name the fields that make it unique".to_owned());
    }
    Ok(segments)
}

fn check_literal(literal: &str, before: Option<&Segment>) -> Result<(), String> {
    let illegal =
        |c: &char| c.is_control() || matches!(c, '/' | '\\' | '?' | '#' | '%' | '~' | '}');
    if let Some(c) = literal.chars().find(illegal) {
        return Err(format!("`{}` cannot stand in an id", c.escape_default()));
    }
    if let Some(Segment::Field(name)) = before
        && !literal.starts_with(SEPARATORS)
    {
        return Err(format!(
            "after `{{{name}}}` a separator must follow, one of : | ; , instead of `{literal}`"
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
            ("a/{b}", "`/` cannot stand in an id"),
            ("{a", "`{a` has no closing brace"),
            (
                "",
                "an id cannot be empty; name the fields that make it unique",
            ),
        ] {
            assert_eq!(parse(pattern).unwrap_err(), reason);
        }
    }
}
