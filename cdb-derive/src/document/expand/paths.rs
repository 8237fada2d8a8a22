//! The constants of stored paths and composites.

use proc_macro2::TokenStream;
use quote::quote;

use super::item::implement;
use super::stub_docs;
use crate::document::model::DocumentModel;
use crate::document::path::{PathModel, Source};
use crate::document::role::Role;

/// All constants of a document type.
pub(super) fn constants(model: &DocumentModel) -> TokenStream {
    let mut tokens = TokenStream::new();
    let name = model.ty();
    let paths = model.paths();
    let paths = paths.iter().filter(|path| !path.is_multiple);
    let paths = paths.map(|path| path_constant(model, path));
    let composites = model
        .settings
        .composite
        .iter()
        .enumerate()
        .map(|(at, composite)| {
            let (vis, constant) = (&model.vis, &composite.name);
            let doc = stub_docs::composite(composite);
            quote! {
                #[doc = #doc]
                #vis const #constant: __model::Composite<#name> = __model::Composite::new(
                    &<#name as __model::Document>::SHAPE.composites[#at],
                );
            }
        });
    let constants = quote!(#(#paths)* #(#composites)*);
    tokens.extend(quote!(#[allow(dead_code, reason = "not every path is used")]));
    tokens.extend(implement(model, &name, &constants));
    tokens
}

fn path_constant(model: &DocumentModel, path: &PathModel<'_>) -> TokenStream {
    let (name, doc) = (model.ty(), stub_docs::path(model, path));
    let (vis, constant, ty, pointer) = (path.vis, path.constant, path.ty, &path.pointer);
    let mut indexing = marker(if path.is_indexed() {
        "Indexed"
    } else {
        "Unindexed"
    });
    if let Source::Field(field) = path.source {
        match field.roles.first() {
            Some((Role::Vector, _)) => indexing = marker("Embedding"),
            Some((Role::FullText, _)) => indexing = quote!(__model::FullText<#indexing>),
            _ => {}
        }
    }
    let change = marker(match path.source {
        Source::Computed => "Computed",
        Source::Field(field) | Source::Inside(field) if model.is_fixed(field) => "Fixed",
        Source::Field(_) | Source::Inside(_) => "Patchable",
    });
    quote! {
        #[doc = #doc]
        #vis const #constant: __model::Path<#name, #ty, #indexing, #change> =
            __model::Path::new(#pointer);
    }
}

/// Returns a type that says what a path can be used for.
fn marker(name: &str) -> TokenStream {
    let ident = quote::format_ident!("{name}");
    quote!(__model::#ident)
}
