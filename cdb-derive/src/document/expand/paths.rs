//! The constants of stored paths and composites.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::{implement, stub_docs};
use crate::document::model::{DocumentModel, FieldModel, Indexing};
use crate::document::role::Role;

/// All constants of a document type.
pub(super) struct PathConstants<'a>(pub(super) &'a DocumentModel);

impl ToTokens for PathConstants<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let name = model.ty();
        let fields = model
            .fields
            .iter()
            .filter(|field| field.has_path())
            .map(|field| field_constants(model, field));
        let computed = model.computed.iter().map(|computed| {
            let (vis, constant, ty) = (&model.vis, &computed.constant, &computed.ty);
            let pointer = format!("/{}", computed.stored);
            let indexing = marker(computed.indexed, "Indexed", "Unindexed");
            let doc = stub_docs::computed(computed);
            quote! {
                #[doc = #doc]
                #vis const #constant: __model::Path<#name, #ty, #indexing, __model::Computed> =
                    __model::Path::new(#pointer);
            }
        });
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
        let constants = quote!(#(#fields)* #(#computed)* #(#composites)*);
        tokens.extend(quote!(#[allow(dead_code, reason = "not every path is used")]));
        tokens.extend(implement(model, &name, &constants));
    }
}

fn field_constants(model: &DocumentModel, field: &FieldModel) -> TokenStream {
    let name = model.ty();
    let (vis, constant, ty) = (&field.vis, &field.constant, &field.ty);
    let pointer = field.pointer();
    let indexed = field.indexing == Indexing::Indexed;
    let fixed = model.is_fixed(field);
    let doc = stub_docs::path(model, field);
    let mut indexing = marker(indexed, "Indexed", "Unindexed");
    if field.in_role(Role::Vector).is_some() {
        indexing = quote!(__model::Embedding);
    } else if field.in_role(Role::FullText).is_some() {
        indexing = quote!(__model::FullText<#indexing>);
    }
    let change = marker(fixed, "Fixed", "Patchable");
    let nested = field
        .nested
        .iter()
        .filter(|path| !path.is_multiple)
        .map(|path| {
            let (constant, ty, pointer) = (&path.constant, &path.ty, &path.path);
            let doc = stub_docs::nested_path(model, field, path);
            let indexing = marker(path.indexed, "Indexed", "Unindexed");
            quote! {
                #[doc = #doc]
                #vis const #constant: __model::Path<#name, #ty, #indexing, #change> =
                    __model::Path::new(#pointer);
            }
        });
    quote! {
        #[doc = #doc]
        #vis const #constant: __model::Path<#name, #ty, #indexing, #change> =
            __model::Path::new(#pointer);
        #(#nested)*
    }
}

fn marker(condition: bool, yes: &str, no: &str) -> TokenStream {
    let ident = quote::format_ident!("{}", if condition { yes } else { no });
    quote!(__model::#ident)
}
