//! The documentation of everything that is generated: written here once, with the care of written items.

use syn::ext::IdentExt;

use crate::document::model::{DocumentModel, FieldModel, Indexing};
use crate::document::value::CompositeSetting;
use crate::id_pattern::Segment;

/// Of the key. What it holds is of the user's types, so its example is text and no test.
pub(super) fn key(model: &DocumentModel) -> String {
    let name = &model.ident;
    let fields = model.key_fields();
    let what = if fields.is_empty() {
        format!("The key of [`{name}`]: there is one in each partition.")
    } else {
        format!("The fields that make the id of a [`{name}`], unique within its partition.")
    };
    let given: Vec<_> = fields.iter().map(|field| field.ident.to_string()).collect();
    let id: String = model.pattern.iter().map(Segment::to_string).collect();
    format!(
        " {what}\n\n ```text\n {}Key::new({}) // \"{id}\"\n ```",
        name.unraw(),
        given.join(", ")
    )
}

/// Of a field of the key.
pub(super) fn key_field(model: &DocumentModel, field: &FieldModel) -> String {
    format!(" As in {}.", link(model, field))
}

/// Of the constant of a field.
pub(super) fn path(model: &DocumentModel, field: &FieldModel) -> String {
    let use_of_index = match field.indexing {
        Indexing::Indexed => "Indexed: filters and sorts may use it.",
        Indexing::NotIndexed => "Not indexed.",
        Indexing::Excluded => "Excluded from the index, whatever else the container stores.",
    };
    let change = if model.is_fixed(field) {
        " Never changes: it makes the id or the partition key."
    } else {
        ""
    };
    format!(
        " The path of {}, stored at `/{}`. {use_of_index}{change}",
        link(model, field),
        field.stored
    )
}

/// Of the constant of a declared path inside a field.
pub(super) fn nested_path(model: &DocumentModel, field: &FieldModel, pointer: &str) -> String {
    format!(
        " A path inside of {}, stored at `{pointer}`. Indexed: filters and sorts may use it.",
        link(model, field)
    )
}

/// Of the constant of a composite.
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
        " Sorts by {}. One composite index serves it, as declared and reversed.",
        words.join(", ")
    )
}

/// A link to a field; rustdoc has none to raw identifiers.
fn link(model: &DocumentModel, field: &FieldModel) -> String {
    let (document, name) = (&model.ident, &field.name);
    if field.ident == *name {
        format!("[`{document}::{name}`]")
    } else {
        format!("`{document}::{name}`")
    }
}
