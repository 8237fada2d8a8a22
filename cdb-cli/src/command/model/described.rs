//! The document types of a container, with their indexes and queries.

use std::fmt;

use cdb_model::{CompositeTarget, Direction, DocumentShape, FieldIndexing, IdSegment};
use serde::Serialize;

use crate::model::Model;

/// The model, for people and as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    pub(super) container: &'static str,
    pub(super) partition_key: Vec<String>,
    pub(super) discriminator: &'static str,
    pub(super) types: Vec<Type>,
    queries: Vec<Served>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) discriminator: &'static str,
    pub(super) id: String,
    pub(super) fields: Vec<Field>,
    pub(super) composites: Vec<Composite>,
    expires: bool,
}

#[derive(Serialize)]
pub(super) struct Field {
    pub(super) path: &'static str,
    pub(super) indexing: Indexing,
}

#[derive(Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) enum Indexing {
    PartitionKey,
    Indexed,
    Excluded,
    None,
}

#[derive(Serialize)]
pub(super) struct Composite {
    pub(super) name: &'static str,
    pub(super) paths: Vec<String>,
}

/// A query, and what serves it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    query: String,
    /// Whether indexes serve all of it.
    by_indexes: bool,
    range_indexes: Vec<String>,
    composite_indexes: Vec<String>,
    leftover: Vec<String>,
    refused: Vec<String>,
}

impl Described {
    pub(super) fn of(model: &Model) -> Self {
        let policy = &model.definition.indexing_policy;
        let queries = model.queries().iter().map(|query| {
            let explanation = model.explain(query, policy);
            Served {
                query: query.name.clone(),
                by_indexes: explanation.is_narrowed(),
                range_indexes: explanation.range_indexes,
                composite_indexes: explanation.composite_indexes,
                leftover: explanation.leftover,
                refused: explanation.refused,
            }
        });
        let types = model.documents.iter();
        Self {
            container: model.name,
            partition_key: model.definition.partition_key.paths.clone(),
            discriminator: model.discriminator,
            types: types
                .map(|shape| Type::of(shape, model.discriminator))
                .collect(),
            queries: queries.collect(),
        }
    }

    /// A class diagram. Mermaid takes `~` for generics and no quotes inside classes, so paths go without their slashes.
    pub(super) fn mermaid(&self) -> String {
        let mut text = format!(
            "classDiagram\n  class {} {{\n    <<container>>\n",
            self.container
        );
        for path in &self.partition_key {
            text.push_str(&format_line(&format!("partition key {path}")));
        }
        text.push_str(&format_line(&format!("type in {}", self.discriminator)));
        text.push_str("  }\n");
        for of in &self.types {
            text.push_str("  class ");
            text.push_str(of.name);
            text.push_str(" {\n    <<");
            text.push_str(of.discriminator);
            text.push_str(">>\n");
            for field in &of.fields {
                let name = field.path.trim_start_matches('/').replace('/', ".");
                let mark = match field.indexing {
                    Indexing::PartitionKey => "#",
                    Indexing::Indexed => "+",
                    Indexing::Excluded | Indexing::None => "-",
                };
                text.push_str(&format_line(&format!("{mark}{name}")));
            }
            text.push_str("  }\n  ");
            text.push_str(&[self.container, " *-- ", of.name, "\n"].concat());
        }
        text
    }
}

fn format_line(content: &str) -> String {
    format!("    {content}\n")
}

impl Type {
    fn of(shape: &DocumentShape, discriminator: &str) -> Self {
        let fields = shape.fields.iter().map(|field| Field {
            path: field.path,
            indexing: if shape.partition_key.contains(&field.path) {
                Indexing::PartitionKey
            } else {
                match field.indexing {
                    FieldIndexing::Indexed => Indexing::Indexed,
                    FieldIndexing::Excluded => Indexing::Excluded,
                    FieldIndexing::NotIndexed => Indexing::None,
                }
            },
        });
        let composites = shape.composites.iter().map(|composite| {
            let paths = composite.paths.iter().map(|path| {
                let target = match path.path {
                    CompositeTarget::Discriminator => format!("/{discriminator}"),
                    CompositeTarget::Path(pointer) => pointer.to_owned(),
                };
                match path.direction {
                    Direction::Ascending => target,
                    Direction::Descending => target + " desc",
                }
            });
            Composite {
                name: composite.name,
                paths: paths.collect(),
            }
        });
        Self {
            name: shape.name,
            discriminator: shape.discriminator,
            id: id_pattern(shape),
            fields: fields.collect(),
            composites: composites.collect(),
            expires: shape.ttl,
        }
    }

    fn with(&self, indexing: Indexing) -> Vec<&str> {
        let fields = self
            .fields
            .iter()
            .filter(|field| field.indexing == indexing);
        fields.map(|field| field.path).collect()
    }
}

fn id_pattern(shape: &DocumentShape) -> String {
    let segments = shape.id.iter().map(|segment| match segment {
        IdSegment::Literal(text) => (*text).to_owned(),
        IdSegment::Field(name) => format!("{{{name}}}"),
    });
    segments.collect()
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: partition key {}, type in `{}`",
            self.container,
            self.partition_key.join(", "),
            self.discriminator
        )?;
        for of in &self.types {
            writeln!(f, "\n{} (`{}`), id {}", of.name, of.discriminator, of.id)?;
            for (label, indexing) in [
                ("indexed", Indexing::Indexed),
                ("not indexed", Indexing::None),
                ("excluded by name", Indexing::Excluded),
            ] {
                let paths = of.with(indexing);
                if !paths.is_empty() {
                    writeln!(f, "  {label}: {}", paths.join(" "))?;
                }
            }
            for composite in &of.composites {
                writeln!(
                    f,
                    "  composite {}: {}",
                    composite.name,
                    composite.paths.join(", ")
                )?;
            }
            if of.expires {
                writeln!(f, "  expires by a ttl of its own")?;
            }
        }
        writeln!(f, "\nqueries:")?;
        for query in &self.queries {
            write!(f, "  {}: ", query.query)?;
            let served: Vec<&str> = query.range_indexes.iter().map(String::as_str).collect();
            let composite: Vec<String> = query
                .composite_indexes
                .iter()
                .map(|index| format!("({index})"))
                .collect();
            let by: Vec<&str> = served
                .into_iter()
                .chain(composite.iter().map(String::as_str))
                .collect();
            match (query.by_indexes, query.refused.first()) {
                (_, Some(sort)) => writeln!(f, "refused, no index for the sort by {sort}")?,
                (true, None) => writeln!(f, "{}", by.join(" "))?,
                (false, None) => writeln!(
                    f,
                    "{}; one by one: {}",
                    by.join(" "),
                    query.leftover.join(", ")
                )?,
            }
        }
        Ok(())
    }
}
