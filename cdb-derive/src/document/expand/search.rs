//! The parts of the shape that are searched: computed properties, vectors and full texts.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::document::computed::Part;
use crate::document::model::{ComputedModel, DocumentModel, FieldModel};
use crate::document::search::NO_INDEX;

pub(super) fn computed(model: &DocumentModel, computed: &ComputedModel) -> TokenStream {
    let name = &computed.stored;
    let parts = computed.expression.iter().map(|part| match part {
        Part::Text(text) => quote!(__model::ExpressionPart::Text(#text)),
        Part::Field(names) => {
            let field = names.first().and_then(|name| model.field(name));
            let stored = field.map_or("", |field| &field.stored);
            let inside = names.iter().skip(1).map(|name| format!("/{name}"));
            let path = format!("/{stored}{}", inside.collect::<String>());
            quote!(__model::ExpressionPart::Path(#path))
        }
    });
    quote!(__model::ComputedShape { name: #name, expression: &[#(#parts),*] })
}

pub(super) fn vector(field: &FieldModel) -> Option<TokenStream> {
    let vector = field.settings.vector.get()?;
    let (path, ty, dimensions) = (field.pointer(), &field.ty, vector.dimensions);
    let distance = format_ident!("{}", vector.distance);
    let index = if vector.index == NO_INDEX {
        quote!(__model::None)
    } else {
        let kind = format_ident!("{}", vector.index);
        quote!(__model::Some(__model::VectorIndexKind::#kind))
    };
    Some(quote! {
        __model::VectorShape {
            path: #path,
            element: <#ty as __model::VectorField>::ELEMENT,
            dimensions: #dimensions,
            distance: __model::VectorDistance::#distance,
            index: #index,
        }
    })
}

pub(super) fn full_text(field: &FieldModel) -> Option<TokenStream> {
    let setting = field.settings.full_text.get()?;
    let (path, language) = (field.pointer(), &setting.language);
    Some(quote!(__model::FullTextShape { path: #path, language: #language }))
}
