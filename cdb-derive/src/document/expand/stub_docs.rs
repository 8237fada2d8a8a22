//! The documentation of generated items.

use syn::ext::IdentExt;

use crate::document::id_pattern::Segment;
use crate::document::model::{DocumentModel, FieldModel, Indexing};
use crate::document::path::{PathModel, Source};
use crate::document::role::Role;
use crate::document::value::CompositeSetting;

/// Documents the key.
pub(super) fn key(model: &DocumentModel) -> String {
    let name = &model.ident;
    let id: String = model.pattern.iter().map(Segment::to_string).collect();
    format!(" The key of a [`{name}`] within its partition. Its id is `{id}`.")
}

/// Documents a field of the key.
pub(super) fn key_field(model: &DocumentModel, field: &FieldModel) -> String {
    format!(" See {}.", link(model, field))
}

/// Documents the constant of a path.
pub(super) fn path(model: &DocumentModel, path: &PathModel<'_>) -> String {
    let use_of_index = match path.indexing {
        Indexing::Indexed => "Indexed: filters and sorts may use it.",
        Indexing::NotIndexed => "Not indexed.",
        Indexing::Excluded => "Excluded from the index.",
    };
    let pointer = &path.pointer;
    match path.source {
        Source::Field(field) => {
            let use_of_index = match field.roles.first() {
                Some((Role::Vector, _)) => "A vector: searches find the nearest.",
                Some((Role::FullText, _)) => "A text: searches find and rank words.",
                _ => use_of_index,
            };
            let change = match (model.fixed_role(field), field.set_by_writes()) {
                (Some(role), _) => format!(" Never changes: it is {role}."),
                (None, Some(role)) => format!(" Set by writes: it is {role}."),
                (None, None) => String::new(),
            };
            let field = link(model, field);
            format!(" The path of {field}, stored at `{pointer}`. {use_of_index}{change}")
        }
        Source::Inside(field) => {
            let field = link(model, field);
            format!(" A path inside {field}, stored at `{pointer}`. {use_of_index}")
        }
        Source::Computed => {
            let name = &pointer[1..];
            format!(" The path of a computed property, `{name}` in queries. {use_of_index}")
        }
    }
}

/// Documents the constant of a composite.
pub(super) fn composite(composite: &CompositeSetting) -> String {
    let words: Vec<_> = composite
        .paths
        .iter()
        .map(|path| {
            let direction = if path.descending { " descending" } else { "" };
            format!("`{}`{direction}", path.field.unraw())
        })
        .collect();
    format!(
        " Sorts by {}. Its composite index also serves the reverse order.",
        words.join(", ")
    )
}

/// Returns a link to a field. rustdoc cannot link to raw identifiers.
fn link(model: &DocumentModel, field: &FieldModel) -> String {
    let (document, name) = (&model.ident, &field.name);
    if field.ident == *name {
        format!("[`{document}::{name}`]")
    } else {
        format!("`{document}::{name}`")
    }
}
