//! The name of a message on a command line.
//!
//! `intent-…@order-2` belongs to the outbox of an instance, `out-…@ann` to an outbox of messaging,
//! `in-…@ann` to an inbox: an id, `@`, and the partition that stores it. A partition that is not one plain
//! word is written as the JSON array of its levels. `work-000:message:LANE:STREAM:MESSAGE` is the id of a
//! document of ordered work.

use std::fmt;
use std::str::FromStr;

use cdb_model::value::PartitionKeyValue;
use cdb_model::{DocumentKey as _, PartitionKey};
use cdb_work::WorkMessageKey;
use serde::{Serialize, Serializer};

use super::kind::Source;

#[derive(Clone, Debug)]
pub(crate) enum MessageName {
    /// The messages of an instance's turn.
    Intent { instance: String, key: String },
    /// A message of an outbox or inbox.
    Partition {
        partition: PartitionKey,
        name: String,
    },
    /// A message of ordered work.
    Work(WorkMessageKey),
}

const INTENT: &str = "intent-";
const WORK: &str = "work-";

impl MessageName {
    /// The source that can hold the message.
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::Intent { .. } => Source::Instances,
            Self::Partition { .. } => Source::Partitions,
            Self::Work(_) => Source::Work,
        }
    }
}

/// Parses the name that `messages list` shows.
impl FromStr for MessageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = if text.starts_with(WORK) {
            WorkMessageKey::parse(text).ok().map(Self::Work)
        } else {
            in_partition(text)
        };
        parsed.ok_or_else(|| {
            format!("`{text}` is not the name of a message; use a name from `messages list`")
        })
    }
}

fn in_partition(text: &str) -> Option<MessageName> {
    let (name, partition) = text.split_once('@')?;
    let partition = parse_partition(partition)?;
    if let Some(key) = name.strip_prefix(INTENT) {
        let [PartitionKeyValue::String(instance)] = partition.values() else {
            return None;
        };
        return Some(MessageName::Intent {
            instance: instance.clone(),
            key: key.replace("~40", "@").replace("~7E", "~"),
        });
    }
    let is_known = name.starts_with("in-") || name.starts_with("out-");
    is_known.then(|| MessageName::Partition {
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

impl fmt::Display for MessageName {
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
            Self::Partition { partition, name } => {
                write!(f, "{name}@{}", format_partition(partition))
            }
            Self::Work(key) => {
                let id = key.to_id().expect("the key comes from an id");
                write!(f, "{id}")
            }
        }
    }
}

impl Serialize for MessageName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use cdb_work::Lane;

    use super::*;

    #[test]
    fn a_name_is_parsed_from_its_text_form() {
        let intent = |instance: &str, key: &str| MessageName::Intent {
            instance: instance.to_owned(),
            key: key.to_owned(),
        };
        let message = |partition: PartitionKey| MessageName::Partition {
            partition,
            name: "in-0123-7".to_owned(),
        };
        let work = |stream: &str| {
            MessageName::Work(WorkMessageKey::new(
                "work-007",
                Lane::Inbox,
                stream,
                "paid-1",
            ))
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
            (work("order-7"), "work-007:message:inbox:order-7:paid-1"),
            (work("ann@home"), "work-007:message:inbox:ann@home:paid-1"),
        ] {
            assert_eq!(name.to_string(), text);
            let parsed: MessageName = text.parse().expect("a name");
            assert_eq!(format!("{parsed:?}"), format!("{name:?}"));
        }
    }

    #[test]
    fn an_invalid_name_is_an_error_that_names_the_list_command() {
        for text in [
            "",
            "in-1",
            "in-1@",
            "x@y",
            "in-1@[",
            "in-1@[]",
            "intent-k@[7]",
            "in-1@[{}]",
            "work-7",
            "work-007:message:inbox",
        ] {
            let refused = text.parse::<MessageName>();
            assert!(
                refused.is_err_and(|reason| reason.contains("messages list")),
                "{text}"
            );
        }
    }
}
