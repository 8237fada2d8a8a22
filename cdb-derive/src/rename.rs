//! serde's naming rules.

/// A rule of `#[serde(rename_all = "…")]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RenameRule {
    #[default]
    None,
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

impl RenameRule {
    /// Returns the rule with this name, or the text of a mistake.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "lowercase" => Self::Lower,
            "UPPERCASE" => Self::Upper,
            "PascalCase" => Self::Pascal,
            "camelCase" => Self::Camel,
            "snake_case" => Self::Snake,
            "SCREAMING_SNAKE_CASE" => Self::ScreamingSnake,
            "kebab-case" => Self::Kebab,
            "SCREAMING-KEBAB-CASE" => Self::ScreamingKebab,
            other => return Err(format!("serde has no naming rule `{other}`")),
        })
    }

    /// Returns the stored name of a field. As in serde, the field's own name is in snake case.
    pub(crate) fn apply_to_field(self, field: &str) -> String {
        match self {
            Self::None | Self::Lower | Self::Snake => field.to_owned(),
            Self::Upper | Self::ScreamingSnake => field.to_ascii_uppercase(),
            Self::Pascal => pascal(field),
            Self::Camel => {
                let pascal = pascal(field);
                let head = pascal.chars().next().map_or(0, char::len_utf8);
                pascal[..head].to_ascii_lowercase() + &pascal[head..]
            }
            Self::Kebab => field.replace('_', "-"),
            Self::ScreamingKebab => field.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn pascal(field: &str) -> String {
    let mut out = String::new();
    let mut upper = true;
    for c in field.chars() {
        if c == '_' {
            upper = true;
        } else if upper {
            out.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_renamed_as_serde_does() {
        // The table of serde_derive's tests.
        let cases = [
            (
                "outcome", "Outcome", "outcome", "OUTCOME", "outcome", "OUTCOME",
            ),
            (
                "very_tasty",
                "VeryTasty",
                "veryTasty",
                "VERY_TASTY",
                "very-tasty",
                "VERY-TASTY",
            ),
            ("a", "A", "a", "A", "a", "A"),
            ("z42", "Z42", "z42", "Z42", "z42", "Z42"),
        ];
        for (field, pascal, camel, screaming, kebab, screaming_kebab) in cases {
            assert_eq!(RenameRule::None.apply_to_field(field), field);
            assert_eq!(RenameRule::Pascal.apply_to_field(field), pascal);
            assert_eq!(RenameRule::Camel.apply_to_field(field), camel);
            assert_eq!(RenameRule::ScreamingSnake.apply_to_field(field), screaming);
            assert_eq!(RenameRule::Kebab.apply_to_field(field), kebab);
            assert_eq!(
                RenameRule::ScreamingKebab.apply_to_field(field),
                screaming_kebab
            );
        }
    }
}
