//! The constants of stored paths and composites.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::{private, stub_docs};
use crate::document::model::{DocumentModel, FieldModel, Indexing};

/// All constants of a document type.
pub(in crate::document) struct PathConstants<'a>(pub(in crate::document) &'a DocumentModel);

impl ToTokens for PathConstants<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let name = &model.ident;
        let fields = model
            .fields
            .iter()
            .filter(|field| field.skip.is_none())
            .map(|field| field_constants(model, field));
        let computed = model.computed.iter().map(|computed| {
            let private = private();
            let (vis, constant, ty) = (&model.vis, &computed.constant, &computed.ty);
            let pointer = format!("/{}", computed.stored);
            let indexing = marker(&private, computed.indexed, "Indexed", "Unindexed");
            let doc = stub_docs::computed(computed);
            quote! {
                #[doc = #doc]
                #vis const #constant: #private::Path<#name, #ty, #indexing, #private::Computed> =
                    #private::Path::new(#pointer);
            }
        });
        let composites = model.composites.iter().enumerate().map(|(at, composite)| {
            let private = private();
            let (vis, constant) = (&model.vis, &composite.name);
            let doc = stub_docs::composite(composite);
            quote! {
                #[doc = #doc]
                #vis const #constant: #private::Composite<#name> = #private::Composite::new(
                    &<#name as #private::Document>::SHAPE.composites[#at],
                );
            }
        });
        tokens.extend(quote! {
            #[automatically_derived]
            #[allow(dead_code, reason = "not every path is used")]
            impl #name {
                #(#fields)*
                #(#computed)*
                #(#composites)*
            }
        });
    }
}

fn field_constants(model: &DocumentModel, field: &FieldModel) -> TokenStream {
    let private = private();
    let name = &model.ident;
    let (vis, constant, ty) = (&field.vis, &field.constant, &field.ty);
    let pointer = format!("/{}", field.stored);
    let indexed = field.indexing == Indexing::Indexed;
    let fixed = model.is_fixed(field);
    let doc = stub_docs::path(model, field);
    let mut indexing = marker(&private, indexed, "Indexed", "Unindexed");
    if field.vector.is_some() {
        indexing = quote!(#private::Embedding);
    } else if field.full_text.is_some() {
        indexing = quote!(#private::FullText<#indexing>);
    }
    let change = marker(&private, fixed, "Fixed", "Patchable");
    let nested = field
        .nested
        .iter()
        .filter(|path| !path.is_multiple)
        .map(|path| {
            let (constant, ty, pointer) = (&path.constant, &path.ty, &path.path);
            let doc = stub_docs::nested_path(model, field, path);
            let indexing = marker(&private, path.indexed, "Indexed", "Unindexed");
            quote! {
                #[doc = #doc]
                #vis const #constant: #private::Path<#name, #ty, #indexing, #change> =
                    #private::Path::new(#pointer);
            }
        });
    quote! {
        #[doc = #doc]
        #vis const #constant: #private::Path<#name, #ty, #indexing, #change> =
            #private::Path::new(#pointer);
        #(#nested)*
    }
}

fn marker(private: &TokenStream, condition: bool, yes: &str, no: &str) -> TokenStream {
    let ident = quote::format_ident!("{}", if condition { yes } else { no });
    quote!(#private::#ident)
}
