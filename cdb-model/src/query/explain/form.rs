//! The forms of query that a container's types declare indexes for: one per indexed field, one per
//! composite.
//!
//! Explained against the policy of a live container, they show the cost of its differences without the
//! program's own queries.

use std::fmt;

use serde_json::Value;

use super::explanation::{Explanation, explain};
use crate::container::Container;
use crate::policy::IndexingPolicy;
use crate::shape::{CompositeShape, CompositeTarget, DocumentShape, FieldIndexing, FieldShape};
use crate::sql::{Comparison, OrderTerm, Predicate};

/// A form of query that a document type declares an index for.
#[derive(Clone, Debug)]
pub struct QueryForm {
    document: &'static str,
    discriminator: &'static str,
    description: String,
    predicate: Predicate,
    order: Vec<OrderTerm>,
}

impl QueryForm {
    /// Returns the forms of all types of a container, in the order of declaration.
    pub fn of<C: Container>() -> Vec<Self> {
        let forms = C::DOCUMENTS.iter().flat_map(|shape| {
            // A container with one type needs no filter by the discriminator, and no index on it.
            let is_type = match C::DOCUMENTS.len() {
                1 => Predicate::All,
                _ => Predicate::IsType(shape.discriminator),
            };
            let sorts_within = is_type.clone();
            let indexed = shape.fields.iter();
            let indexed = indexed.filter(|field| field.indexing == FieldIndexing::Indexed);
            let fields = indexed.map(move |field| Self::by_field::<C>(shape, &is_type, field));
            let sorts = shape.composites.iter();
            fields.chain(
                sorts.map(move |composite| Self::sorted::<C>(shape, &sorts_within, composite)),
            )
        });
        forms.collect()
    }

    fn by_field<C: Container>(
        shape: &DocumentShape,
        is_type: &Predicate,
        field: &FieldShape,
    ) -> Self {
        let (name, path) = (field.name, field.path);
        let pointer = path.trim_end_matches("/[]");
        let any = Value::from("…");
        let condition = if pointer == path {
            Predicate::Compare(pointer.to_owned(), Comparison::Equal, any)
        } else {
            Predicate::ArrayContains(pointer.to_owned(), any)
        };
        Self {
            document: shape.name,
            discriminator: C::DISCRIMINATOR,
            description: format!("by {name}"),
            predicate: Predicate::And(vec![is_type.clone(), condition]),
            order: Vec::new(),
        }
    }

    fn sorted<C: Container>(
        shape: &DocumentShape,
        is_type: &Predicate,
        composite: &CompositeShape,
    ) -> Self {
        let terms = composite.paths.iter().map(|path| OrderTerm {
            target: path.path.into(),
            direction: path.direction,
        });
        let names = composite.paths.iter().map(|path| match path.path {
            CompositeTarget::Discriminator => "type",
            CompositeTarget::Path(pointer) => pointer.trim_start_matches('/'),
        });
        let names: Vec<&str> = names.collect();
        Self {
            document: shape.name,
            discriminator: C::DISCRIMINATOR,
            description: format!("sorted {} ({})", composite.name, names.join(", ")),
            predicate: is_type.clone(),
            order: terms.collect(),
        }
    }

    /// Returns the name of the document type.
    pub fn document(&self) -> &'static str {
        self.document
    }

    /// Returns the form in words: `by status`, `sorted BY_DUE (type, visibleAt)`.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns which indexes of a policy serve the form.
    pub fn explain(&self, policy: &IndexingPolicy) -> Explanation {
        explain(
            &self.predicate,
            &self.order,
            false,
            policy,
            self.discriminator,
        )
    }
}

impl fmt::Display for QueryForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.document, self.description)
    }
}
