//! Labels that a program derives from the id of an instance.
//!
//! The functions are the program's: a panic or an unusable value costs a label, never a turn.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::documents::{MAX_LABEL, Rule, label_value};

/// The most labels of a provider. Each is stored with every activity.
const MAX_LABELS: usize = 8;

/// The labels that activities and turns have by nature.
const RESERVED: [&str; 3] = ["activity", "orchestration", "tag"];

/// Returns the value of an instance by its id.
type Function = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A label that [limits](crate::documents::Rule) select by, derived from the id of an instance.
///
/// The function gives the value, or `None` for an instance without the label. It is called at each
/// commit that schedules activities, so it must not block, and must always return the same for an
/// id. Of a value longer than 64 bytes, its beginning and a hash are stored; a rule for the whole value
/// selects it. An empty value and a panic leave the instance without the label, with a warning in the log. The commands of `cdb` know no
/// function: activities that a rewind queues again lack the label.
///
/// ```
/// use cdb_provider::{CosmosDBProviderConfig, InstanceLabel};
///
/// // The ids of instances begin with the tenant, as `acme:order-7`.
/// let tenant = InstanceLabel::new("tenant", |id| Some(id.split_once(':')?.0.to_owned()));
/// let config = CosmosDBProviderConfig { labels: vec![tenant], ..Default::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone)]
pub struct InstanceLabel {
    name: String,
    value: Arc<Function>,
}

impl InstanceLabel {
    /// Creates a label. The provider refuses to open with a name that is empty, longer than 64
    /// bytes, `activity`, `orchestration`, `tag`, or contains `=` or white space.
    pub fn new(
        name: impl Into<String>,
        value: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            value: Arc::new(value),
        }
    }

    /// Returns the value of an instance; `None` without a usable one.
    fn of(&self, instance_id: &str) -> Option<String> {
        let name = &*self.name;
        let Ok(value) = catch_unwind(AssertUnwindSafe(|| (self.value)(instance_id))) else {
            tracing::error!(instance_id, name, "the function of a label has panicked");
            return None;
        };
        let value = value?;
        if value.is_empty() {
            tracing::warn!(instance_id, name, "a label is left out: it is empty");
            return None;
        }
        Some(label_value(value))
    }
}

impl fmt::Debug for InstanceLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InstanceLabel").field(&self.name).finish()
    }
}

/// The labels of a provider.
#[derive(Clone, Debug)]
pub(crate) struct InstanceLabels(Arc<[InstanceLabel]>);

impl InstanceLabels {
    pub(crate) fn new(labels: &[InstanceLabel]) -> Self {
        Self(labels.into())
    }

    /// Returns the names that a rule selects by, and that no instance of this program has.
    pub(crate) fn unknown_to<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = &'a str> {
        let names = rule.select.conditions().map(|(name, _)| name);
        names.filter(|name| {
            !RESERVED.contains(name) && self.0.iter().all(|label| label.name != **name)
        })
    }

    /// Returns the labels of an instance.
    pub(crate) fn of(&self, instance_id: &str) -> BTreeMap<String, String> {
        let labels = self.0.iter();
        labels
            .filter_map(|label| Some((label.name.clone(), label.of(instance_id)?)))
            .collect()
    }
}

/// Returns what is wrong with the labels of a configuration.
pub(crate) fn mistakes(labels: &[InstanceLabel]) -> impl Iterator<Item = String> {
    let names = || labels.iter().map(|label| &*label.name);
    let is_unusable = |name: &str| {
        let is_separator = |char: char| char == '=' || char.is_whitespace();
        name.is_empty()
            || name.len() > MAX_LABEL
            || RESERVED.contains(&name)
            || name.contains(is_separator)
    };
    let unusable = names().filter(move |name| is_unusable(name)).map(|name| {
        let reserved = RESERVED.join("`, `");
        format!(
            "labels: `{name}` is not a name; use 1 to {MAX_LABEL} bytes without `=` and white space, other than `{reserved}`"
        )
    });
    let repeated = names().enumerate().filter(move |(at, name)| {
        let mut earlier = names().take(*at);
        earlier.any(|earlier| earlier == *name)
    });
    let repeated = repeated.map(|(_, name)| format!("labels: `{name}` is given twice"));
    let count = labels.len();
    let too_many = (count > MAX_LABELS)
        .then(|| format!("labels: {count} are too many; use at most {MAX_LABELS}"));
    unusable.chain(repeated).chain(too_many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_panics_or_returns_an_unusable_value_costs_its_own_label_only() {
        let labels = InstanceLabels::new(&[
            InstanceLabel::new("tenant", |id| Some(id.split_once(':')?.0.to_owned())),
            InstanceLabel::new("panics", |_| panic!("a fault of the program")),
            InstanceLabel::new("long", |_| Some("n".repeat(65))),
            InstanceLabel::new("empty", |_| Some(String::new())),
        ]);
        let of = |id| labels.of(id).into_iter().collect::<Vec<_>>();
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let long = label("long", &label_value("n".repeat(65)));
        let tenant = label("tenant", "acme");
        assert_eq!(of("acme:order-7"), [long.clone(), tenant]);
        assert_eq!(of("order-7"), [long]);
    }

    #[test]
    fn names_that_no_rule_could_select_are_refused() {
        let label = |name: &str| InstanceLabel::new(name, |_| None);
        let mistakes = |names: &[&str]| {
            let labels: Vec<_> = names.iter().map(|name| label(name)).collect();
            mistakes(&labels).collect::<Vec<_>>()
        };
        assert_eq!(mistakes(&["tenant", "region"]), Vec::<String>::new());
        for name in ["", "activity", "orchestration", "tag", "a=b", "a b"] {
            let found = mistakes(&[name]).join("; ");
            assert!(
                found.contains(&format!("`{name}` is not a name")),
                "{found}"
            );
        }
        assert_eq!(
            mistakes(&["tenant", "region", "tenant"]),
            ["labels: `tenant` is given twice"]
        );
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        assert_eq!(mistakes(&many), ["labels: 9 are too many; use at most 8"]);
    }
}
