//! A description of a container's document types, indexes and queries.

use std::borrow::Cow;
use std::fmt;

use cdb_model::policy::ComputedProperty;
use cdb_model::shape::{Direction, DocumentShape, FieldIndexing, IdSegment};
use serde::Serialize;

use crate::model::Model;

/// The answer of `cdb model`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    container: &'static str,
    partition_key: Vec<String>,
    discriminator: &'static str,
    types: Vec<Type>,
    computed_properties: Vec<ComputedProperty>,
    queries: Vec<Served>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Type {
    name: &'static str,
    discriminator: &'static str,
    id: String,
    fields: Vec<Field>,
    composites: Vec<Composite>,
    unique_keys: Vec<Vec<Cow<'static, str>>>,
    expires: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
}

#[derive(Serialize)]
struct Field {
    path: &'static str,
    indexing: Indexing,
    optional: bool,
    /// Whether it has an index, which a field of the partition key may have too.
    #[serde(skip)]
    is_indexed: bool,
}

#[derive(Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum Indexing {
    PartitionKey,
    Indexed,
    Excluded,
    None,
}

#[derive(Serialize)]
struct Composite {
    name: &'static str,
    paths: Vec<String>,
}

/// A query, and the indexes that serve it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    query: String,
    /// Whether indexes serve the whole query.
    by_indexes: bool,
    range_indexes: Vec<String>,
    composite_indexes: Vec<String>,
    leftover: Vec<String>,
    refused: Vec<String>,
}

impl Described {
    pub(super) fn of(model: &Model) -> Self {
        let policy = &model.definition.indexing_policy;
        let queries = model.queries.iter().map(|query| {
            let explanation = query.explain(policy);
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
            computed_properties: model.definition.computed_properties.clone(),
            queries: queries.collect(),
        }
    }

    /// Returns a class diagram. Mermaid cannot quote members, so paths are written with dots.
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
        for document in &self.types {
            text.push_str(&document.mermaid());
            text.push_str(&["  ", self.container, " *-- ", document.name, "\n"].concat());
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
            optional: field.optional,
            is_indexed: field.indexing == FieldIndexing::Indexed,
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
                let target = path.path.pointer(discriminator).into_owned();
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
        let unique_keys = shape.unique_keys.iter().map(|paths| {
            let paths = paths.iter().map(|path| path.pointer(discriminator));
            paths.collect()
        });
        Self {
            name: shape.name,
            discriminator: shape.discriminator,
            id: id_pattern(shape),
            fields: fields.collect(),
            composites: composites.collect(),
            unique_keys: unique_keys.collect(),
            version: shape.version,
            expires: shape.ttl.is_some(),
        }
    }

    fn mermaid(&self) -> String {
        let mut text = format!("  class {} {{\n    <<{}>>\n", self.name, self.discriminator);
        for field in &self.fields {
            let name = field.path.trim_start_matches('/').replace('/', ".");
            let visibility = match field.indexing {
                Indexing::PartitionKey => "#",
                Indexing::Indexed => "+",
                Indexing::Excluded | Indexing::None => "-",
            };
            text.push_str(&format_line(&format!("{visibility}{name}")));
        }
        text + "  }\n"
    }

    fn with(&self, indexing: Indexing) -> Vec<&str> {
        let fields = self.fields.iter().filter(|field| match indexing {
            Indexing::Indexed => field.is_indexed,
            other => field.indexing == other,
        });
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
        for document in &self.types {
            write!(f, "\n{document}")?;
        }
        writeln!(f, "\nqueries:")?;
        for query in &self.queries {
            writeln!(f, "  {query}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} (`{}`), id {}",
            self.name, self.discriminator, self.id
        )?;
        for (label, indexing) in [
            ("indexed", Indexing::Indexed),
            ("not indexed", Indexing::None),
            ("excluded by name", Indexing::Excluded),
        ] {
            let paths = self.with(indexing);
            if !paths.is_empty() {
                writeln!(f, "  {label}: {}", paths.join(" "))?;
            }
        }
        for composite in &self.composites {
            let paths = composite.paths.join(", ");
            writeln!(f, "  composite {}: {paths}", composite.name)?;
        }
        for paths in &self.unique_keys {
            writeln!(f, "  unique: {}", paths.join(", "))?;
        }
        if self.expires {
            writeln!(f, "  expires after its own ttl")?;
        }
        Ok(())
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = &self.query;
        if let Some(sort) = self.refused.first() {
            return write!(f, "{query}: refused, no index for the sort by {sort}");
        }
        let composite = self.composite_indexes.iter();
        let indexes: Vec<String> = (self.range_indexes.iter().cloned())
            .chain(composite.map(|index| format!("({index})")))
            .collect();
        write!(f, "{query}: {}", indexes.join(" "))?;
        if !self.by_indexes {
            write!(f, "; scanned: {}", self.leftover.join(", "))?;
        }
        Ok(())
    }
}
