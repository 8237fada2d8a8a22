//! The traits of the document.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::item::{body, implement, key_of, partition_key};
use super::shape::shape;
use crate::document::model::{DocumentModel, FieldModel};
use crate::document::path::Source;
use crate::output::respan::located_at;

/// The impls of `Document`, `Queryable` and `QueriedIn`, and checks of the types of marked fields.
pub(super) fn document_impl(model: &DocumentModel) -> TokenStream {
    let mut tokens = TokenStream::new();
    let (name, key, shape) = (&model.ident, model.key_ty(), shape(model));
    let values = model.key_fields().into_iter().map(|field| {
        let ident = &field.ident;
        let is_stored = model.field(&field.name).is_some();
        let stored = is_stored.then(|| quote!(#ident: __model::Clone::clone(&self.#ident),));
        stored.unwrap_or_else(|| quote!(#ident: self.#ident(),))
    });
    let key_of = key_of(model, &values.collect());
    let partition_key = match model.flattened_key() {
        Some(FieldModel { ident, ty, .. }) => {
            let key = quote!(__model::PartitionKeyFields::to_partition_key(&self.#ident));
            located_at(ty.span(), key)
        }
        None => partition_key(&model.partition_key()),
    };
    let bodies = [find_codec(name), key_of, partition_key].map(|code| body(model, code));
    let [find_codec, key_of, partition_key] = bodies;
    if !model.is_stub {
        tokens.extend(type_checks(model));
    }
    let items = quote! {
        type Key = #key;

        const SHAPE: &'static __model::DocumentShape = &#shape;

        fn field_codec() -> __model::FieldCodec<Self> {
            #find_codec
        }

        fn key(&self) -> Self::Key {
            #key_of
        }

        fn partition_key(&self) -> __model::PartitionKey {
            #partition_key
        }
    };
    let ty = model.ty();
    tokens.extend(implement(model, &quote!(__model::Document for #ty), &items));
    tokens.extend(queryable(model));
    tokens
}

/// Returns the expression of the JSON codec. Its call has the span of the name, where the user adds
/// serde's derives if they are missing.
fn find_codec(name: &Ident) -> TokenStream {
    let find = quote!((&__model::FindCodec::<Self>::start()).field_codec());
    let find = located_at(name.span(), find);
    quote! {
        use __model::{MissingCodec as _, SerdeCodec as _};
        #find
    }
}

/// The checks that fields have types that fit their settings.
fn type_checks(model: &DocumentModel) -> TokenStream {
    let marked = model.fields.iter().filter_map(|field| {
        let check = field.rules()?.type_check?;
        Some(type_check(model, check, &field.ty, field.ty.span()))
    });
    let paths = model.paths();
    let indexed = paths.iter().filter(|path| match path.source {
        Source::Field(field) => path.is_indexed() && !field.has_own_index(),
        Source::Inside(_) | Source::Computed => path.is_indexed() && !path.pointer.ends_with("/*"),
    });
    let indexed = indexed.map(|path| {
        let check = if path.is_array() {
            "has_scalars"
        } else {
            "is_scalar"
        };
        type_check(model, check, path.ty, path.ty.span())
    });
    // The paths before the last one form groups, for which the order of a type does not matter.
    let sorted = model.settings.composite.iter().filter_map(|composite| {
        let path = composite.paths.last()?;
        let name = path.field.unraw().to_string();
        let ty = model.field(&name).map(|field| &field.ty);
        let ty = ty.or_else(|| Some(&model.computed(&name)?.ty))?;
        Some(type_check(model, "is_ordered", ty, path.field.span()))
    });
    let unique = model
        .settings
        .unique
        .iter()
        .flat_map(|unique| &unique.fields);
    let unique = unique.filter_map(|ident| {
        let field = model.field(&ident.unraw().to_string())?;
        Some(type_check(model, "is_scalar", &field.ty, ident.span()))
    });
    marked.chain(indexed).chain(sorted).chain(unique).collect()
}

/// The check that a type meets the bound of a function of the model, with its error at `span`.
fn type_check(model: &DocumentModel, check: &str, ty: &Type, span: Span) -> TokenStream {
    let check = format_ident!("{check}");
    let check = located_at(span, quote!(__model::#check::<#ty>()));
    if model.generics.params.is_empty() {
        return quote!(const _: () = #check;);
    }
    let (parameters, _, clause) = model.generics.split_for_impl();
    quote! {
        #[allow(dead_code, reason = "it is only compiled")]
        const _: () = { fn check #parameters () #clause { #check } };
    }
}

fn queryable(model: &DocumentModel) -> TokenStream {
    let ty = model.ty();
    let items = quote! {
        const SHAPES: &'static [&'static __model::DocumentShape] =
            &[<#ty as __model::Document>::SHAPE];
        const IS_PARTIAL: __model::bool = true;
    };
    let queryable = implement(model, &quote!(__model::Queryable for #ty), &items);
    let mut generics = model.generics.clone();
    generics
        .params
        .push(syn::parse_quote!(__C: __model::Container));
    let clause = generics.make_where_clause();
    clause
        .predicates
        .push(syn::parse_quote!(#ty: __model::MemberOf<__C>));
    let (parameters, _, clause) = generics.split_for_impl();
    quote! {
        #queryable

        #[automatically_derived]
        impl #parameters __model::QueriedIn<__C> for #ty #clause {
            fn read_stored(
                json: &__model::str,
            ) -> __model::Result<__model::Stored<Self>, __model::DecodeError> {
                __model::read_document::<__C, Self>(json)
            }
        }
    }
}
