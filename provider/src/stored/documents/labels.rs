//! The labels of activities.

use std::collections::BTreeMap;

use cdb_coordination::membership::name_hash;
use serde::{Deserialize, Serialize};

/// What rules select an activity by. Stored with it, so that a rule also applies to activities that
/// wait already.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Labels {
    /// The name of the activity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub activity: String,
    /// The name of the orchestration; empty on activities of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub orchestration: String,
    /// The tag, which is stored beside the labels.
    #[serde(skip)]
    pub tag: Option<String>,
    /// The [`InstanceLabel`](crate::InstanceLabel)s of the instance. Activities of earlier versions also have its
    /// search attributes here.
    #[serde(
        rename = "attributes",
        default,
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub of_instance: BTreeMap<String, String>,
}

/// The longest value of a label, in bytes. A key is not a text.
pub(crate) const MAX_LABEL: usize = 64;

/// Returns what is stored of the value of a label: of a longer one than [`MAX_LABEL`] its beginning and a hash, so
/// that no limit misses it.
pub(crate) fn label_value(value: String) -> String {
    if value.len() <= MAX_LABEL {
        return value;
    }
    let hash = format!("~{:016x}", name_hash(&value));
    let mut end = MAX_LABEL - hash.len();
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{hash}", &value[..end])
}

impl Labels {
    /// Returns the labels of a turn, and of all activities that it schedules.
    pub(crate) fn of_turn(orchestration: &str, of_instance: BTreeMap<String, String>) -> Self {
        Self {
            orchestration: orchestration.to_owned(),
            ..Self::of_instance(of_instance)
        }
    }

    /// Returns the labels of an instance.
    pub(crate) fn of_instance(of_instance: BTreeMap<String, String>) -> Self {
        Self {
            of_instance,
            ..Self::default()
        }
    }

    /// Returns a label: the activity, the orchestration, the tag or a label of the instance.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        match name {
            "activity" => Some(&*self.activity),
            "orchestration" => Some(&*self.orchestration).filter(|name| !name.is_empty()),
            "tag" => self.tag.as_deref(),
            name => self.of_instance.get(name).map(String::as_str),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_have_keys_of_their_own() {
        let short = "n".repeat(MAX_LABEL);
        assert_eq!(label_value(short.clone()), short);
        let [first, second] = ["a", "b"].map(|end| label_value(format!("{short}{end}")));
        assert_ne!(first, second);
        assert_eq!(first.len(), MAX_LABEL);
        let wide = label_value("ß".repeat(MAX_LABEL));
        assert!(wide.starts_with('ß') && wide.len() <= MAX_LABEL, "{wide}");
    }
}
