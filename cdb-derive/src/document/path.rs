//! The paths of a document: those of its fields, declared ones inside its fields, and those of its
//! computed properties.

use proc_macro2::Ident;
use syn::{Type, Visibility};

use super::model::{DocumentModel, FieldModel, Indexing};

/// A path.
#[derive(Debug)]
pub(super) struct PathModel<'a> {
    /// The Rust name, `address.city` for a path inside a field.
    pub(super) name: &'a str,
    /// The stored path, `/address/city`.
    pub(super) pointer: String,
    pub(super) constant: &'a Ident,
    pub(super) vis: &'a Visibility,
    pub(super) ty: &'a Type,
    pub(super) indexing: Indexing,
    /// Whether a document may lack the path.
    pub(super) is_optional: bool,
    /// Whether the path has no single value to filter by, and no constant.
    pub(super) is_multiple: bool,
    pub(super) source: Source<'a>,
}

/// What a path is a path of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Field(&'a FieldModel),
    Inside(&'a FieldModel),
    Computed,
}

impl PathModel<'_> {
    pub(super) fn is_indexed(&self) -> bool {
        self.indexing == Indexing::Indexed
    }

    /// Whether the path is that of an array, which is indexed by its elements.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.source, Source::Field(field) if field.is_array)
    }
}

impl DocumentModel {
    /// Returns all paths.
    pub(super) fn paths(&self) -> Vec<PathModel<'_>> {
        let stored = self.fields.iter().filter(|field| field.has_path());
        let of_fields = stored.flat_map(|field| {
            let own = PathModel {
                name: &field.name,
                pointer: field.pointer(),
                constant: &field.constant,
                vis: &field.vis,
                ty: &field.ty,
                indexing: field.indexing,
                is_optional: field.is_optional(),
                is_multiple: false,
                source: Source::Field(field),
            };
            let nested = field.nested.iter().map(move |nested| PathModel {
                name: &nested.name,
                pointer: nested.path.clone(),
                constant: &nested.constant,
                vis: &field.vis,
                ty: &nested.ty,
                indexing: Indexing::declared(nested.indexed),
                is_optional: true,
                is_multiple: nested.is_multiple,
                source: Source::Inside(field),
            });
            std::iter::once(own).chain(nested)
        });
        let computed = self.computed.iter().map(|computed| PathModel {
            name: &computed.name,
            pointer: format!("/{}", computed.stored),
            constant: &computed.constant,
            vis: &self.vis,
            ty: &computed.ty,
            indexing: Indexing::declared(computed.indexed),
            is_optional: true,
            is_multiple: false,
            source: Source::Computed,
        });
        of_fields.chain(computed).collect()
    }
}
