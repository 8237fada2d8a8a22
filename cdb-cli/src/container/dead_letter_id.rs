//! The id of a dead letter on a command line: its kind and id, `@`, and the partition that stores
//! it.
//!
//! `intent-…@order-2` belongs to the outbox of an instance, `out-…@ann` to an outbox of messaging,
//! `in-…@ann` to an inbox. A partition that is not one plain word is written as the JSON array of
//! its levels.

use std::fmt;

use cdb_model::PartitionKey;
use cdb_model::value::PartitionKeyValue;

/// The id of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeadLetterId {
    /// Messages of an instance's turn.
    Intent { instance: String, key: String },
    /// A message of an outbox or inbox.
    Message {
        partition: PartitionKey,
        name: String,
    },
}

const INTENT: &str = "intent-";

/// Parses the id that `deadletters list` shows.
pub(crate) fn parse_dead_letter_id(text: &str) -> Result<DeadLetterId, String> {
    let invalid = || {
        format!(
            "`{text}` is not the name of a dead letter; use a name from `deadletters list`, as …@partition"
        )
    };
    let (name, partition) = text.split_once('@').ok_or_else(invalid)?;
    let partition = parse_partition(partition).ok_or_else(invalid)?;
    if let Some(key) = name.strip_prefix(INTENT) {
        let [PartitionKeyValue::String(instance)] = partition.values() else {
            return Err(invalid());
        };
        return Ok(DeadLetterId::Intent {
            instance: instance.clone(),
            key: key.replace("~40", "@").replace("~7E", "~"),
        });
    }
    if !name.starts_with("in-") && !name.starts_with("out-") {
        return Err(invalid());
    }
    Ok(DeadLetterId::Message {
        partition,
        name: name.to_owned(),
    })
}

fn parse_partition(text: &str) -> Option<PartitionKey> {
    if !text.starts_with('[') {
        return (!text.is_empty()).then(|| PartitionKey::from(text));
    }
    let key: PartitionKey = serde_json::from_str(text).ok()?;
    (1..=3).contains(&key.values().len()).then_some(key)
}

/// Formats a partition as one word, or as JSON when it is not one word.
fn format_partition(partition: &PartitionKey) -> String {
    match partition.values() {
        [PartitionKeyValue::String(text)] if is_word(text) => text.clone(),
        _ => partition.to_header(),
    }
}

fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_.:/+@=".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intent { instance, key } => {
                let key = key.replace('~', "~7E").replace('@', "~40");
                write!(
                    f,
                    "{INTENT}{key}@{}",
                    format_partition(&PartitionKey::from(&**instance))
                )
            }
            Self::Message { partition, name } => {
                write!(f, "{name}@{}", format_partition(partition))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_from_its_text_form() {
        let intent = |instance: &str, key: &str| DeadLetterId::Intent {
            instance: instance.to_owned(),
            key: key.to_owned(),
        };
        let message = |partition: PartitionKey| DeadLetterId::Message {
            partition,
            name: "in-0123-7".to_owned(),
        };
        for (name, text) in [
            (intent("order-2", "turn-2"), "intent-turn-2@order-2"),
            (intent("a b@c", "x@y~40"), r#"intent-x~40y~7E40@["a b@c"]"#),
            (
                message("ann@example.org".into()),
                "in-0123-7@ann@example.org",
            ),
            (message("[\"x\"]".into()), r#"in-0123-7@["[\"x\"]"]"#),
            (message("".into()), r#"in-0123-7@[""]"#),
            (
                message(("ann", 7, true).into()),
                r#"in-0123-7@["ann",7,true]"#,
            ),
            (message(7.into()), "in-0123-7@[7]"),
        ] {
            assert_eq!(name.to_string(), text);
            assert_eq!(parse_dead_letter_id(text), Ok(name));
        }
    }

    #[test]
    fn an_invalid_id_is_an_error_that_names_the_list_command() {
        for text in [
            "",
            "in-1",
            "in-1@",
            "x@y",
            "in-1@[",
            "in-1@[]",
            "intent-k@[7]",
            "in-1@[{}]",
        ] {
            let refused = parse_dead_letter_id(text);
            assert!(
                refused.is_err_and(|reason| reason.contains("deadletters list")),
                "{text}"
            );
        }
    }
}
