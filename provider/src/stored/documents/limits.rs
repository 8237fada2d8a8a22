//! Limits of activities: the rules of a container, and the permits that its runtimes hold.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::instance::OperatorAction;
use super::labels::{Labels, label_value};
use super::queue_item::WorkerItem;

/// The partition of the rules. Not an instance.
pub const LIMITS_PARTITION: &str = "cdb:limits";

/// The most rules of a container. Each activity is compared with all of them.
pub const MAX_RULES: usize = 100;

/// The rules of a container, one document. A container without rules has none.
///
/// ```
/// use cdb_provider::documents::{LIMITS_PARTITION, LimitsKey};
/// use cdb_provider::documents::Rule;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// store.set_limit(Rule::new("activity=CallBank".parse()?).running(10), "ada").await?;
/// let limits = store.container().read(&LimitsKey::new(LIMITS_PARTITION)).await?.expect("it was written");
/// assert_eq!(limits.document.rules[0].running, Some(10));
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "limits", id = "{instance_id}:limits")]
pub struct Limits {
    /// Always [`LIMITS_PARTITION`].
    #[document(partition_key)]
    pub instance_id: String,
    /// The time of the last change. Runtimes learn of a newer document by the query that also
    /// finds due items.
    #[document(index)]
    pub visible_at: Timestamp,
    /// The rules. An activity keeps to all that select it.
    pub rules: Vec<Rule>,
    /// The last change.
    pub changed: OperatorAction,
}

impl Limits {
    /// Returns the rule that limits what runs or starts of a key.
    pub(crate) fn cap(&self, key: &str) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.is_cap() && rule.select.has_key(key))
    }

    /// Returns the keys whose limits an activity keeps to, each with its rule.
    pub(crate) fn caps_of(&self, activity: &WorkerItem) -> Vec<(&Rule, String)> {
        let labels = activity.all_labels();
        let selecting = self.rules.iter();
        let selecting = selecting.filter_map(|rule| Some((rule, rule.select.key_of(&labels)?)));
        // For one key, an exact selector replaces that of each value.
        selecting
            .filter(|(rule, key)| self.cap(key) == Some(*rule))
            .collect()
    }
}

/// A rule for the activities with a key.
///
/// ```
/// use cdb_provider::documents::{Priority, Rule};
///
/// // The bank allows ten calls at a time, and 50 in a second.
/// let bank = Rule::new("activity=CallBank".parse()?).running(10).starts_per_second(50.0);
/// // Each tenant gets the same share, whoever queued first.
/// let tenants = Rule::new("tenant=*".parse()?).weight(1);
/// // Reports wait for everything else.
/// let nightly = Rule::new("orchestration=Report".parse()?).priority(Priority::Low);
/// assert!([bank, tenants, nightly].iter().all(|rule| rule.check().is_ok()));
/// # Ok::<(), cdb_provider::documents::RuleError>(())
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Rule {
    /// The activities that the rule is for.
    pub select: Selector,
    /// The most activities of a key that run at a time, in all runtimes. Zero pauses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// The most activities of a key that start in a second, in all runtimes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_per_second: Option<f64>,
    /// The share of a key among those that wait in a runtime, 1 to 1,000; also of turns. The first
    /// rule with a weight that selects an activity decides its key. Activities without one have a
    /// key in common, with the weight 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The priority, also of turns; the first rule with one decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// The priority of activities and turns. Those of a higher one are handed out first; of 17 starts, one goes
/// to a lower priority that waits.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "camelCase")]
pub enum Priority {
    /// Before all others.
    High,
    /// Without a rule.
    #[default]
    Normal,
    /// After all others.
    Low,
}

impl Rule {
    /// The rates that a rule may have, in starts per second. Permits count thousandths.
    pub const RATES: RangeInclusive<f64> = 0.001..=1_000_000.0;

    /// The weights that a rule may have.
    pub const WEIGHTS: RangeInclusive<u32> = 1..=1_000;

    /// Creates a rule without a limit.
    pub fn new(select: Selector) -> Self {
        Self {
            select,
            running: None,
            starts_per_second: None,
            weight: None,
            priority: None,
        }
    }

    /// Limits how many run at a time. Zero pauses them.
    pub fn running(self, most: u32) -> Self {
        Self {
            running: Some(most),
            ..self
        }
    }

    /// Limits how many start in a second.
    pub fn starts_per_second(self, most: f64) -> Self {
        Self {
            starts_per_second: Some(most),
            ..self
        }
    }

    /// Sets the share of each key.
    pub fn weight(self, weight: u32) -> Self {
        Self {
            weight: Some(weight),
            ..self
        }
    }

    /// Sets the priority.
    pub fn priority(self, priority: Priority) -> Self {
        Self {
            priority: Some(priority),
            ..self
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Names the value that is out of its range, or says that the rule limits nothing.
    pub fn check(&self) -> Result<(), RuleError> {
        let select = &self.select;
        if let Some(weight) = self.weight
            && !Self::WEIGHTS.contains(&weight)
        {
            let (least, most) = (Self::WEIGHTS.start(), Self::WEIGHTS.end());
            return Err(RuleError(format!(
                "the weight of `{select}` is {weight}; use {least} to {most}"
            )));
        }
        if let Some(rate) = self.starts_per_second
            && !Self::RATES.contains(&rate)
        {
            let (least, most) = (Self::RATES.start(), Self::RATES.end());
            return Err(RuleError(format!(
                "`{select}` may start {rate} in a second; use {least} to {most}, or a rule that lets 0 run"
            )));
        }
        let Self {
            running,
            starts_per_second,
            weight,
            priority,
            ..
        } = self;
        if running.is_none()
            && starts_per_second.is_none()
            && weight.is_none()
            && priority.is_none()
        {
            return Err(RuleError(format!(
                "the rule of `{select}` limits nothing; give it what runs, starts in a second, a weight or a priority"
            )));
        }
        Ok(())
    }

    /// Returns whether the rule selects an activity.
    pub(crate) fn selects(&self, activity: &WorkerItem) -> bool {
        self.select.key_of(&activity.all_labels()).is_some()
    }

    /// Returns whether the rule selects the activities with a key, `activity=SendSms,tenant=ada`.
    pub(crate) fn is_of(&self, key: &str) -> bool {
        self.select.has_key(key)
    }

    /// Returns the part of the rule that concerns turns: their order, and whether new instances begin. `None` without
    /// one.
    pub(crate) fn of_turns(&self) -> Option<Self> {
        let is_ordered = self.weight.is_some() || self.priority.is_some();
        let running = self.running.filter(|_| self.keeps_from_beginning());
        let concerns = self.select.is_of_turns() && (is_ordered || running.is_some());
        concerns.then(|| Self {
            running,
            starts_per_second: None,
            ..self.clone()
        })
    }

    /// Returns whether the rule keeps new instances from beginning: it lets 0 run of labels of instances. Instances
    /// that have begun receive their messages.
    pub fn keeps_from_beginning(&self) -> bool {
        self.running == Some(0) && self.select.is_of_instances()
    }

    /// Returns whether the rule limits what runs or starts, so that runtimes need permits.
    pub fn is_cap(&self) -> bool {
        self.running.is_some() || self.starts_per_second.is_some()
    }
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub(crate) String);

/// The activities of a rule, as text: `*` for all, or conditions that an activity meets, all of them.
///
/// | text | selects | keys |
/// |---|---|---|
/// | `*` | all activities | one |
/// | `activity=CallBank` | those with this name | one |
/// | `orchestration=Import` | those of this orchestration | one |
/// | `tag=gpu` | those with this tag | one |
/// | `tenant=ada` | those whose instance has this [label](crate::InstanceLabel) | one |
/// | `tenant=*` | those whose instance has this label | one per value |
/// | `activity=SendSms,tenant=*` | those of this name, of an instance with this label | one per tenant |
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Selector {
    /// The value of each label; `None` for any value. Empty for all activities.
    conditions: BTreeMap<String, Option<String>>,
}

/// What a value of a rule cannot have: the text of a selector would have two meanings.
const RESERVED: [char; 2] = [',', '='];

impl FromStr for Selector {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let error = |why: String| {
            RuleError(format!(
                "`{text}` selects no activities: {why}; write `*`, or a name and a value as `activity=CallBank`, `orchestration=Import`, `tag=gpu`, `tenant=ada` or `tenant=*`, several with commas as `activity=SendSms,tenant=*`"
            ))
        };
        let mut conditions = BTreeMap::new();
        if text == "*" {
            return Ok(Self { conditions });
        }
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| error(format!("`{part}` has no `=`")))?;
            for text in [name, value] {
                if text.is_empty() {
                    return Err(error(format!("`{part}` lacks a name or a value")));
                }
                if text.contains(RESERVED) || text.contains(char::is_whitespace) {
                    return Err(error(format!(
                        "`{text}` has a space, a comma or an equals sign; use `*` for such values"
                    )));
                }
            }
            // What activities have by nature is compared as it is.
            let value = match name {
                _ if value == "*" => None,
                "activity" | "orchestration" | "tag" => Some(value.to_owned()),
                _ => Some(label_value(value.to_owned())),
            };
            if conditions.insert(name.to_owned(), value).is_some() {
                return Err(error(format!("it names `{name}` twice")));
            }
        }
        Ok(Self { conditions })
    }
}

/// Stored selectors of earlier versions may have any value.
impl TryFrom<String> for Selector {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse().or_else(|error| {
            let (name, value) = text.split_once('=').ok_or(error)?;
            let conditions = BTreeMap::from([(name.to_owned(), Some(value.to_owned()))]);
            Ok(Self { conditions })
        })
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> Self {
        selector.to_string()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.conditions.is_empty() {
            return f.write_str("*");
        }
        for (at, (name, value)) in self.conditions.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={}", value.as_deref().unwrap_or("*"))?;
        }
        Ok(())
    }
}

impl Selector {
    /// Selects all activities.
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the conditions: the name of a label, and its value; `None` for any value, each with a key of its own.
    pub fn conditions(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let conditions = self.conditions.iter();
        conditions.map(|(name, value)| (&**name, value.as_deref()))
    }

    /// Returns the position among selectors: those with more conditions come first, and exact ones before those of any
    /// value, so that an exception needs no order.
    pub(crate) fn place(&self) -> (Reverse<usize>, usize) {
        let any = self.conditions.values().filter(|value| value.is_none());
        (Reverse(self.conditions.len()), any.count())
    }

    /// Returns whether turns have the labels that it asks for.
    fn is_of_turns(&self) -> bool {
        let mut names = self.conditions.keys();
        names.all(|name| name != "activity" && name != "tag")
    }

    /// Returns whether it asks for labels of instances only.
    fn is_of_instances(&self) -> bool {
        !self.conditions.is_empty()
            && self.is_of_turns()
            && !self.conditions.contains_key("orchestration")
    }

    /// Returns whether activities with this key are selected.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        if self.conditions.is_empty() {
            return key == "*";
        }
        let parts: Vec<_> = key.split(',').filter_map(|it| it.split_once('=')).collect();
        let matches =
            |((name, value), (of, found)): ((&String, &Option<String>), &(&str, &str))| {
                name == of
                    && value
                        .as_deref()
                        .is_none_or(|value| escaped(value) == *found)
            };
        parts.len() == self.conditions.len() && self.conditions.iter().zip(&parts).all(matches)
    }

    /// Returns the key of an activity, `tenant=ada`; `None` if it is not selected.
    pub(crate) fn key_of(&self, labels: &Labels) -> Option<String> {
        if self.conditions.is_empty() {
            return Some("*".to_owned());
        }
        let mut key = String::new();
        for (name, value) in &self.conditions {
            let found = labels.get(name)?;
            if value.as_deref().is_some_and(|value| value != found) {
                return None;
            }
            let comma = if key.is_empty() { "" } else { "," };
            key.extend([comma, name, "=", &escaped(found)]);
        }
        Some(key)
    }
}

/// Returns a value without the characters that separate the parts of a key.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(RESERVED) && !value.contains('%') {
        return value.into();
    }
    let escape = |at: char| match at {
        ',' => "%2C".to_owned(),
        '=' => "%3D".to_owned(),
        '%' => "%25".to_owned(),
        at => at.to_string(),
    };
    value.chars().map(escape).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        let of_instance = [
            ("tenant", "ada".to_owned()),
            ("note", label_value("n".repeat(65))),
            ("floor", "3".to_owned()),
        ];
        let of_instance = of_instance.map(|(name, value)| (name.to_owned(), value));
        Labels {
            activity: "CallBank".to_owned(),
            tag: Some("gpu".to_owned()),
            ..Labels::of_turn("Order", BTreeMap::from(of_instance))
        }
    }

    #[test]
    fn a_selector_has_a_key_for_each_activity_that_it_selects() {
        let key = |text: &str| {
            let selector: Selector = text.parse().expect(text);
            assert_eq!(selector.to_string().parse(), Ok(selector.clone()));
            selector.key_of(&labels())
        };
        assert_eq!(key("*").as_deref(), Some("*"));
        assert_eq!(key("tenant=*").as_deref(), Some("tenant=ada"));
        assert_eq!(key("tenant=ada").as_deref(), Some("tenant=ada"));
        assert_eq!(key("tenant=bob"), None);
        assert_eq!(
            key("activity=CallBank").as_deref(),
            Some("activity=CallBank")
        );
        assert_eq!(
            key("orchestration=Order").as_deref(),
            Some("orchestration=Order")
        );
        assert_eq!(key("tag=gpu").as_deref(), Some("tag=gpu"));
        assert_eq!(key("floor=3").as_deref(), Some("floor=3"));
        let both = Some("activity=CallBank,tenant=ada");
        assert_eq!(key("activity=CallBank,tenant=*").as_deref(), both);
        assert_eq!(key("tenant=ada,activity=*").as_deref(), both);
        assert_eq!(key("activity=CallBank,tenant=bob"), None);
        assert_eq!(key("activity=CallBank,colour=*"), None);
        // Of a long value, its beginning and a hash.
        let long = key(&format!("note={}", "n".repeat(65)));
        assert!(long.is_some_and(|key| key.len() == 69));
        assert_eq!(key("note=*"), key(&format!("note={}", "n".repeat(65))));
        assert_eq!(key("colour=*"), None);
    }

    #[test]
    fn what_selects_nothing_is_refused_with_what_to_write() {
        for (text, why) in [
            ("", "has no `=`"),
            ("tenant", "has no `=`"),
            ("=ada", "lacks a name"),
            ("tenant=", "lacks a name or a value"),
            ("tenant= ada", "has a space"),
            ("tenant=a=b", "has a space, a comma or an equals sign"),
            ("tenant=ada,", "has no `=`"),
            ("tenant=ada,tenant=bob", "names `tenant` twice"),
        ] {
            let error = text.parse::<Selector>().expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.contains("write `*`"), "{error}");
        }
    }

    #[test]
    fn a_stored_selector_of_an_earlier_version_keeps_its_value() {
        let read = |text: &str| serde_json::from_value::<Selector>(text.into()).expect(text);
        for text in ["tenant=Ada Lovelace", "tenant=a=b"] {
            let (name, value) = text.split_once('=').expect("it has one");
            assert_eq!(
                read(text).conditions().collect::<Vec<_>>(),
                [(name, Some(value))]
            );
            assert_eq!(read(text).to_string(), text);
        }
    }

    #[test]
    fn a_key_has_the_values_of_its_activity_whatever_these_are() {
        let labels = |tenant: &str| Labels {
            of_instance: [("tenant".to_owned(), tenant.to_owned())].into(),
            ..labels()
        };
        let select: Selector = "activity=*,tenant=*".parse().expect("it is valid");
        let key = |tenant: &str| select.key_of(&labels(tenant)).expect("it is selected");
        let all = ["a", "a,tenant=b", "a%2Ctenant=b", "a=b", "a b"].map(key);
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
        assert!(all.iter().all(|key| select.has_key(key)), "{all:?}");
        let exact: Selector = "activity=CallBank,tenant=a".parse().expect("it is valid");
        assert!(exact.has_key(&all[0]) && !exact.has_key(&all[1]));
        assert!(!Selector::all().has_key(&all[0]));
    }

    #[test]
    fn only_a_pause_of_labels_of_instances_concerns_the_begin_of_instances() {
        let of_turns = |select: &str, most| {
            let rule = Rule::new(select.parse().expect(select)).running(most);
            rule.of_turns().and_then(|rule| rule.running)
        };
        assert_eq!(of_turns("tenant=acme", 0), Some(0));
        assert_eq!(of_turns("tenant=acme", 1), None);
        for select in [
            "*",
            "activity=Call",
            "activity=Call,tenant=acme",
            "orchestration=Import",
        ] {
            assert_eq!(of_turns(select, 0), None, "{select}");
        }
    }

    #[test]
    fn values_out_of_their_range_are_refused() {
        let all = || Rule::new(Selector::all());
        let refused = [
            all(),
            all().weight(0),
            all().weight(1_001),
            all().starts_per_second(0.0),
            all().starts_per_second(f64::NAN),
        ];
        for rule in refused {
            assert!(rule.check().is_err(), "{rule:?}");
        }
        assert_eq!(all().running(0).check(), Ok(()));
        assert_eq!(all().starts_per_second(0.5).check(), Ok(()));
    }
}
