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
            Self::Camel => lower_first(&pascal(field)),
            Self::Kebab => field.replace('_', "-"),
            Self::ScreamingKebab => field.to_ascii_uppercase().replace('_', "-"),
        }
    }

    /// Returns the stored name of a variant. As in serde, the variant's own name is in Pascal case.
    pub(crate) fn apply_to_variant(self, variant: &str) -> String {
        match self {
            Self::None | Self::Pascal => variant.to_owned(),
            Self::Lower => variant.to_ascii_lowercase(),
            Self::Upper => variant.to_ascii_uppercase(),
            Self::Camel => lower_first(variant),
            Self::Snake => snake(variant),
            Self::ScreamingSnake => snake(variant).to_ascii_uppercase(),
            Self::Kebab => snake(variant).replace('_', "-"),
            Self::ScreamingKebab => snake(variant).to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn lower_first(pascal: &str) -> String {
    let head = pascal.chars().next().map_or(0, char::len_utf8);
    pascal[..head].to_ascii_lowercase() + &pascal[head..]
}

fn snake(variant: &str) -> String {
    let mut out = String::new();
    for (at, c) in variant.char_indices() {
        if at > 0 && c.is_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
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
    #[test]
    fn variants_are_renamed_as_serde_does() {
        // The table of serde_derive's tests: lower, upper, camel, snake and kebab case.
        let cases = [
            (
                "Outcome",
                ["outcome", "OUTCOME", "outcome", "outcome", "outcome"],
            ),
            (
                "VeryTasty",
                [
                    "verytasty",
                    "VERYTASTY",
                    "veryTasty",
                    "very_tasty",
                    "very-tasty",
                ],
            ),
            ("A", ["a", "A", "a", "a", "a"]),
            ("Z42", ["z42", "Z42", "z42", "z42", "z42"]),
        ];
        for (variant, [lower, upper, camel, snake, kebab]) in cases {
            assert_eq!(RenameRule::None.apply_to_variant(variant), variant);
            assert_eq!(RenameRule::Pascal.apply_to_variant(variant), variant);
            assert_eq!(RenameRule::Lower.apply_to_variant(variant), lower);
            assert_eq!(RenameRule::Upper.apply_to_variant(variant), upper);
            assert_eq!(RenameRule::Camel.apply_to_variant(variant), camel);
            assert_eq!(RenameRule::Snake.apply_to_variant(variant), snake);
            assert_eq!(
                RenameRule::ScreamingSnake.apply_to_variant(variant),
                snake.to_ascii_uppercase()
            );
            assert_eq!(RenameRule::Kebab.apply_to_variant(variant), kebab);
            assert_eq!(
                RenameRule::ScreamingKebab.apply_to_variant(variant),
                kebab.to_ascii_uppercase()
            );
        }
    }
}
