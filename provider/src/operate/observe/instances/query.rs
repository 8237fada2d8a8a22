//! The conditions of a list of instances.

use std::collections::BTreeMap;

use cdb_model::policy::{CompositeIndexPath, IndexingPolicy};
use cdb_model::query::{
    CriteriaError, Criterion, Explain, Filter, Operator, Order, SortCriterion, compare_values,
};
use cdb_model::{Query, Timestamp};

use crate::operate::admin::instances::visible;
use crate::stored::documents::{AttributeValue, Durable, Instance, Status};

/// What precedes the name of an attribute in the name of its field.
const PREFIX: &str = "attributes.";

/// The conditions and the order of a list of instances. The default lists all, newest first.
///
/// No index serves the conditions from `orchestration` on: each instance that meets the others is read and compared.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a condition by itself"
)]
pub struct InstanceQuery {
    /// The accepted statuses. Empty accepts any.
    pub statuses: Vec<Status>,
    /// The parent instance.
    pub parent: Option<String>,
    /// Whether only instances without a parent are accepted.
    pub roots: bool,
    /// The earliest time of creation.
    pub created_after: Option<Timestamp>,
    /// The latest time of creation.
    pub created_before: Option<Timestamp>,
    /// A time before which they have ended.
    pub ended_before: Option<Timestamp>,
    /// Conditions on search attributes, whose fields are `attributes.` and the name.
    pub attributes: Vec<Criterion>,
    /// Whether the oldest instance comes first.
    pub oldest_first: bool,
    /// The search attributes to sort by. Empty sorts by the time of creation.
    pub sort: Vec<SortCriterion>,
    /// The name of the orchestration.
    pub orchestration: Option<String>,
    /// The version of the orchestration.
    pub version: Option<String>,
    /// A text in the custom status.
    pub custom_status: Option<String>,
    /// A text in the id or the orchestration's name.
    pub text: Option<String>,
    /// Whether only paused instances are accepted.
    pub paused: bool,
    /// Whether only held instances are accepted.
    pub held: bool,
}

impl InstanceQuery {
    /// Returns the composite index that the sort needs and an indexing policy lacks.
    ///
    /// # Errors
    /// When a condition or the sort cannot be queried.
    pub fn missing_index(
        &self,
        policy: &IndexingPolicy,
    ) -> Result<Option<Vec<CompositeIndexPath>>, CriteriaError> {
        let explained = Explain::<Durable>::explain(&self.to_query()?, policy);
        let missing = self.sort.iter().map(|term| CompositeIndexPath {
            path: format!("/{}", term.field.replace('.', "/")),
            order: term.direction,
        });
        Ok((!explained.refused.is_empty()).then(|| missing.collect()))
    }

    pub(super) fn to_query(&self) -> Result<Query<Instance>, CriteriaError> {
        let order = if !self.sort.is_empty() {
            Order::from_criteria(&self.sort)?
        } else if self.oldest_first {
            Instance::BY_CREATED.into()
        } else {
            Instance::BY_CREATED.reversed()
        };
        let query = Query::<Instance>::across_partitions();
        Ok(query.filter(self.filter()?).order_by(order))
    }

    fn filter(&self) -> Result<Filter<Instance>, CriteriaError> {
        let mut filter = match &*self.statuses {
            [] => visible(),
            [one] => Instance::STATUS.eq(one.clone()),
            several => Instance::STATUS.is_in(several.iter().cloned()),
        };
        if let Some(parent) = &self.parent {
            filter = filter & Instance::PARENT_INSTANCE_ID.eq(&**parent);
        }
        if let Some(after) = self.created_after {
            filter = filter & Instance::CREATED_AT.ge(after);
        }
        if let Some(before) = self.created_before {
            filter = filter & Instance::CREATED_AT.le(before);
        }
        if let Some(before) = self.ended_before {
            filter = filter & Instance::COMPLETED_AT.lt(before);
        }
        if self.roots {
            filter = filter & Instance::PARENT_INSTANCE_ID.is_none();
        }
        Ok(filter & Filter::from_criteria(&self.attributes)?)
    }

    /// Returns whether an instance meets all conditions, without a request: for one that was read from an export.
    pub fn matches(&self, instance: &Instance) -> bool {
        let mut attributes = self.attributes.iter();
        (self.statuses.is_empty() || self.statuses.contains(&instance.status))
            && self
                .parent
                .as_ref()
                .is_none_or(|wanted| instance.parent_instance_id.as_ref() == Some(wanted))
            && self
                .created_after
                .is_none_or(|after| instance.created_at >= after)
            && self
                .created_before
                .is_none_or(|before| instance.created_at <= before)
            && self
                .ended_before
                .is_none_or(|before| instance.completed_at.is_some_and(|ended| ended < before))
            && (!self.roots || instance.parent_instance_id.is_none())
            && attributes.all(|condition| meets(&instance.attributes, condition))
            && self.matches_unindexed(instance)
    }

    /// Returns whether an instance meets the conditions that no index serves.
    pub(super) fn matches_unindexed(&self, instance: &Instance) -> bool {
        let (name, id) = (&*instance.orchestration_name, &*instance.instance_id);
        let has = |text: &String| id.contains(&**text) || name.contains(&**text);
        let version = instance.orchestration_version.as_ref();
        self.orchestration
            .as_ref()
            .is_none_or(|wanted| wanted == name)
            && self.custom_status.as_ref().is_none_or(|wanted| {
                let status = instance.custom_status.as_ref();
                status.is_some_and(|status| status.contains(&**wanted))
            })
            && self
                .version
                .as_ref()
                .is_none_or(|wanted| Some(wanted) == version)
            && self.text.as_ref().is_none_or(has)
            && (!self.paused || instance.paused.is_some())
            && (!self.held || instance.held.is_some())
    }
}

/// Whether search attributes meet a condition, as the service compares values: a missing attribute meets none, and only
/// values of one type are ordered.
fn meets(attributes: &BTreeMap<String, AttributeValue>, condition: &Criterion) -> bool {
    let name = condition.field.strip_prefix(PREFIX);
    let attribute = name.and_then(|name| attributes.get(name));
    let Some(attribute) = attribute.and_then(|value| serde_json::to_value(value).ok()) else {
        return false;
    };
    let is_ordered = std::mem::discriminant(&attribute) == std::mem::discriminant(&condition.value);
    let order = compare_values(Some(&attribute), Some(&condition.value));
    match condition.operator {
        Operator::Eq => order.is_eq(),
        Operator::Ne => order.is_ne(),
        Operator::Lt => is_ordered && order.is_lt(),
        Operator::Le => is_ordered && order.is_le(),
        Operator::Gt => is_ordered && order.is_gt(),
        Operator::Ge => is_ordered && order.is_ge(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_compared_as_the_service_compares_them() {
        let attributes = BTreeMap::from([
            ("customer".to_owned(), AttributeValue::String("bob".into())),
            ("total".to_owned(), AttributeValue::Number(100.0)),
            ("paid".to_owned(), AttributeValue::Bool(true)),
        ]);
        let met = |name: &str, operator, value: &str| {
            let field = format!("{PREFIX}{name}");
            let value = serde_json::from_str(value).expect("JSON");
            let condition = Criterion {
                field,
                operator,
                value,
            };
            meets(&attributes, &condition)
        };
        for (name, operator, value) in [
            ("customer", Operator::Eq, r#""bob""#),
            ("customer", Operator::Gt, r#""Zoe""#),
            ("customer", Operator::Ne, r#""ada""#),
            ("customer", Operator::Ne, "7"),
            ("total", Operator::Ge, "100"),
            ("total", Operator::Lt, "100.5"),
            ("paid", Operator::Eq, "true"),
        ] {
            assert!(met(name, operator, value), "{name} {value}");
        }
        for (name, operator, value) in [
            ("customer", Operator::Eq, r#""ada""#),
            ("customer", Operator::Gt, "7"),
            ("total", Operator::Gt, "100"),
            ("total", Operator::Eq, r#""100""#),
            ("paid", Operator::Ne, "true"),
            ("due", Operator::Eq, "1"),
            ("due", Operator::Ne, "1"),
        ] {
            assert!(!met(name, operator, value), "{name} {value}");
        }
    }
}
