//! The forms of query that a container's types declare: one per indexed field, one per composite.
//!
//! A declared index is a promise that somebody asks by it. Explained against another policy, such as that of a live
//! container, the forms say what its drift costs without knowing the program's own queries.

use std::fmt;

use serde_json::Value;

use super::explain::{Explanation, explain};
use super::filter::{Comparison, Predicate};
use super::order::OrderTerm;
use crate::container::Container;
use crate::policy::IndexingPolicy;
use crate::shape::{CompositeShape, CompositeTarget, DocumentShape, FieldIndexing, FieldShape};

/// A form of query that a document type declares an index for.
///
/// ```
/// # use cdb_model::{Container, Document, QueryForm};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Document, Serialize, Deserialize)]
/// # #[document(type = "order", id = "order:{number}")]
/// # struct Order { #[document(partition_key)] customer: String, number: u64, #[document(index)] status: String }
/// # #[derive(Container)]
/// # #[container(partition_key = "/customer")]
/// # enum Shop { Order(Order) }
/// let forms = QueryForm::of::<Shop>();
/// assert_eq!(forms[0].to_string(), "Order by status");
/// let policy = Shop::definition().indexing_policy;
/// assert!(forms[0].explain(&policy, "type").is_narrowed());
/// ```
#[derive(Clone, Debug)]
pub struct QueryForm {
    document: &'static str,
    asks: String,
    predicate: Predicate,
    order: Vec<OrderTerm>,
}

impl QueryForm {
    /// All forms of the types of a container, in the order of declaration.
    pub fn of<C: Container>() -> Vec<Self> {
        let forms = C::DOCUMENTS.iter().flat_map(|shape| {
            // Where every document is of one type, its discriminator need not be asked for, nor indexed.
            let is_type = match C::DOCUMENTS.len() {
                1 => Predicate::All,
                _ => Predicate::IsType(shape.discriminator),
            };
            let sorts_within = is_type.clone();
            let indexed = shape.fields.iter();
            let indexed = indexed.filter(|field| field.indexing == FieldIndexing::Indexed);
            let fields = indexed.map(move |field| Self::by_field(shape, &is_type, field));
            let sorts = shape.composites.iter();
            fields.chain(sorts.map(move |composite| Self::sorted(shape, &sorts_within, composite)))
        });
        forms.collect()
    }

    fn by_field(shape: &DocumentShape, is_type: &Predicate, field: &FieldShape) -> Self {
        let (name, path) = (field.name, field.path);
        let pointer = path.trim_end_matches("/[]");
        let any = Value::from("…");
        let asked = if pointer == path {
            Predicate::Compare(pointer.to_owned(), Comparison::Equal, any)
        } else {
            Predicate::ArrayContains(pointer.to_owned(), any)
        };
        Self {
            document: shape.name,
            asks: format!("by {name}"),
            predicate: Predicate::And(vec![is_type.clone(), asked]),
            order: Vec::new(),
        }
    }

    fn sorted(shape: &DocumentShape, is_type: &Predicate, composite: &CompositeShape) -> Self {
        let terms = composite.paths.iter().map(|path| OrderTerm {
            target: path.path,
            direction: path.direction,
        });
        let names = composite.paths.iter().map(|path| match path.path {
            CompositeTarget::Discriminator => "type",
            CompositeTarget::Path(pointer) => pointer.trim_start_matches('/'),
        });
        let names: Vec<&str> = names.collect();
        Self {
            document: shape.name,
            asks: format!("sorted {} ({})", composite.name, names.join(", ")),
            predicate: is_type.clone(),
            order: terms.collect(),
        }
    }

    /// Name of the document type.
    pub fn document(&self) -> &'static str {
        self.document
    }

    /// What is asked of it: `by status`, `sorted BY_DUE (type, visibleAt)`.
    pub fn asks(&self) -> &str {
        &self.asks
    }

    /// Which index of a policy serves it. `discriminator` is the container's, usually `type`.
    pub fn explain(&self, policy: &IndexingPolicy, discriminator: &str) -> Explanation {
        explain(&self.predicate, &self.order, false, policy, discriminator)
    }
}

impl fmt::Display for QueryForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.document, self.asks)
    }
}
