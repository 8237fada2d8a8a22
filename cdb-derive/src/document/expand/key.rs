//! The typed key: a struct of the pattern's fields that formats to the id and parses back.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;

use super::item::{body, implement, key_of, partition_key};
use super::stub_docs;
use crate::document::model::{DocumentModel, FieldModel};
use crate::output::derived::names;
use crate::output::respan::located_at;

/// The struct of the key. It is outside of the const block, because it must be visible.
pub(super) fn key_struct(model: &DocumentModel) -> TokenStream {
    let (vis, key, krate) = (&model.vis, model.key_ident(), model.settings.krate.path());
    let doc = stub_docs::key(model);
    let fields = model.key_fields().into_iter().map(|field| {
        let (vis, ident, ty) = (&field.vis, &field.ident, &field.ty);
        let doc = stub_docs::key_field(model, field);
        quote!(#[doc = #doc] #vis #ident: #ty,)
    });
    let private = quote!(#krate::__private);
    let traits = [
        "Clone",
        "Debug",
        "PartialEq",
        "Eq",
        "PartialOrd",
        "Ord",
        "Hash",
    ];
    let traits = traits.map(|name| format_ident!("{name}"));
    let (declared, document) = (&model.declared, model.ty());
    let clause = &declared.where_clause;
    let (derives, marker) = if declared.params.is_empty() {
        (quote!(#[derive(#(#private::#traits),*)]), None)
    } else {
        // Most parameters determine only the type of the document, not the content of the key.
        let is_parameter =
            |ident: &Ident| declared.type_params().any(|known| known.ident == *ident);
        let fields = model.key_fields().into_iter();
        let types = fields.map(|field| &field.ty);
        let types = types.filter(|ty| names(ty.to_token_stream(), &is_parameter));
        let marker = quote!(#private::PhantomData<fn() -> #document>);
        let derives = quote! {
            #[#private::derive_where::derive_where(crate = #private::derive_where)]
            #[derive_where(#(#traits),*; #(#types,)* #marker)]
        };
        let marker = quote!(__document: #marker);
        (derives, Some(marker))
    };
    quote! {
        #[doc = #doc]
        #derives
        #[allow(non_snake_case, reason = "the names are those of the document")]
        #vis struct #key #declared #clause {
            #(#fields)*
            #marker
        }
    }
}

const INTEGERS: [&str; 12] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
];

/// The constructor and traits of the key.
pub(super) fn key_impls(model: &DocumentModel) -> TokenStream {
    let (name, key) = (model.ty(), model.key_ty());
    let (partition, known) = partition(model);
    let fields = model.key_fields();
    let components = fields.iter().map(|field| {
        let (name, ident, codec) = (&field.name, &field.ident, codec_name(field));
        quote!((#name, Self::#codec.write(&self.#ident)))
    });
    let shape = quote!(<#name as __model::Document>::SHAPE);
    let to_id = quote!(__model::format_id(#shape, &[#(#components),*]));
    let values = fields.iter().map(|field| {
        let (name, ident, codec) = (&field.name, &field.ident, codec_name(field));
        quote!(#ident: Self::#codec.read(#name, &parts)?,)
    });
    let key_of = key_of(model, &values.collect());
    let parse = quote! {
        let parts = __model::IdParts::split(#shape, id)?;
        __model::Result::Ok(#key_of)
    };
    let [to_id, parse, partition_key] = [to_id, parse, known].map(|code| body(model, code));
    let methods = methods(model, &partition);
    let items = quote! {
        type Document = #name;
        type Partition = #partition;

        fn to_id(&self) -> __model::Result<__model::ItemId, __model::IdError> {
            #to_id
        }

        fn parse(id: &__model::str) -> __model::Result<Self, __model::IdError> {
            #parse
        }

        fn partition(&self) -> #partition {
            #partition_key
        }
    };
    let document_key = implement(model, &quote!(__model::DocumentKey for #key), &items);
    quote!(#methods #document_key)
}

/// The methods of the key. They repeat those of `DocumentKey`, so that programs need not import it.
fn methods(model: &DocumentModel, partition: &TokenStream) -> TokenStream {
    let (vis, name) = (&model.vis, model.ty());
    let fields = model.key_fields();
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let types = fields.iter().map(|field| &field.ty);
    // By value, so that a literal has the type of the field.
    let is_integer = |ty: &syn::Type| matches!(ty, syn::Type::Path(path) if INTEGERS.iter().any(|name| path.path.is_ident(name)));
    let arguments = types.map(|ty| {
        if is_integer(ty) {
            quote!(#ty)
        } else {
            quote!(impl __model::Into<#ty>)
        }
    });
    let values = fields.iter().map(|field| {
        let ident = &field.ident;
        if is_integer(&field.ty) {
            quote!(#ident,)
        } else {
            quote!(#ident: __model::Into::into(#ident),)
        }
    });
    let key_of = key_of(model, &values.collect());
    let codecs = fields.iter().map(|field| codec(model, field));
    let items = quote! {
        #(#codecs)*

        /// Creates the key from its fields.
        #vis fn new(#(#idents: #arguments),*) -> Self {
            #key_of
        }

        /// Returns the address of the document with this key in a partition.
        #vis fn in_partition(
            &self,
            partition: impl __model::Into<__model::PartitionKey>,
        ) -> __model::DocumentAddress<#name> {
            __model::DocumentKey::in_partition(self, partition)
        }

        /// Patches the document with this key: add the changes to the operation.
        #vis fn patch(&self) -> __model::Patch<#name, __model::DocumentAddress<#name, #partition>> {
            __model::Patch::new().at(self)
        }

        /// Deletes the document with this key.
        #vis fn delete(&self) -> __model::Delete<#name, #partition> {
            __model::DocumentKey::delete(self)
        }
    };
    let allow = quote!(#[allow(dead_code, reason = "not every key is used")]);
    let methods = implement(model, &model.key_ty(), &items);
    quote!(#allow #methods)
}

/// Returns the constant with the conversions of a field. A stub has none, because its types are not
/// checked.
fn codec(model: &DocumentModel, field: &FieldModel) -> Option<TokenStream> {
    let (name, ty) = (codec_name(field), &field.ty);
    // The span is that of the type, which may not be allowed in an id.
    let codec = located_at(ty.span(), quote!(__model::id_codec::<#ty>()));
    (!model.is_stub).then(|| quote!(const #name: __model::IdCodec<#ty> = #codec;))
}

fn codec_name(field: &FieldModel) -> Ident {
    format_ident!("__{}", field.name.to_uppercase())
}

/// Returns what the key knows of its partition, as a type and a value: the partition key if the
/// pattern contains all of it.
fn partition(model: &DocumentModel) -> (TokenStream, TokenStream) {
    let keys = model.key_fields();
    let partition = model.partition_key();
    if !partition
        .iter()
        .all(|field| keys.iter().any(|key| key.name == field.name))
    {
        let of_batch = quote!(__model::BatchPartition);
        return (of_batch.clone(), of_batch);
    }
    (quote!(__model::PartitionKey), partition_key(&partition))
}
