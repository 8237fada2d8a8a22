//! The typed key: a struct of the pattern's fields that formats to the id and parses back.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::spanned::Spanned;

use super::stub_docs;
use crate::document::model::{DocumentModel, FieldModel};
use crate::id_pattern::Segment;
use crate::respan::located_at;

/// The struct of the key. It is outside of the const block, because it must be visible.
pub(in crate::document) struct KeyStruct<'a>(pub(in crate::document) &'a DocumentModel);

impl ToTokens for KeyStruct<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let (vis, name, krate) = (&model.vis, &model.ident, &model.krate);
        let key = format_ident!("{name}Key");
        let doc = stub_docs::key(model);
        let fields = model.key_fields().into_iter().map(|field| {
            let (vis, ident, ty) = (&field.vis, &field.ident, &field.ty);
            let doc = stub_docs::key_field(model, field);
            quote!(#[doc = #doc] #vis #ident: #ty,)
        });
        tokens.extend(quote! {
            #[doc = #doc]
            #[derive(
                #krate::__private::Clone,
                #krate::__private::Debug,
                #krate::__private::PartialEq,
                #krate::__private::Eq,
                #krate::__private::PartialOrd,
                #krate::__private::Ord,
                #krate::__private::Hash,
            )]
            #[allow(non_snake_case, reason = "the names are those of the document")]
            #vis struct #key {
                #(#fields)*
            }
        });
    }
}

const INTEGERS: [&str; 12] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
];

/// The constructor and traits of the key.
pub(super) struct KeyImpls<'a>(pub(super) &'a DocumentModel);

impl ToTokens for KeyImpls<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let name = &model.ident;
        let (partition, known) = partition(model);
        let methods = methods(model, &partition);
        let key = format_ident!("{name}Key");
        let text = name.to_string();
        let fields = model.key_fields();
        let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
        let writes = model
            .pattern
            .iter()
            .map(|segment| write_segment(model, segment));
        // Hygienic names, so that a field may have the same name.
        let reader = Ident::new("reader", Span::mixed_site());
        let id = Ident::new("id", Span::mixed_site());
        let reads = reads(model, &reader);
        tokens.extend(quote! {
            #methods

            #[automatically_derived]
            impl __model::DocumentKey for #key {
                type Document = #name;
                type Partition = #partition;

                fn to_id(&self) -> __model::Result<__model::ItemId, __model::IdError> {
                    __model::IdWriter::new(#text) #(#writes)* .finish()
                }

                fn parse(#id: &__model::str) -> __model::Result<Self, __model::IdError> {
                    let mut #reader = __model::IdReader::new(#text, #id);
                    #reads
                    #reader.finish()?;
                    __model::Result::Ok(Self { #(#idents),* })
                }

                fn partition(&self) -> #partition {
                    #known
                }
            }
        });
    }
}

/// The methods of the key. They repeat those of `DocumentKey`, so that programs need not import it.
pub(in crate::document) fn methods(model: &DocumentModel, partition: &TokenStream) -> TokenStream {
    let (vis, name) = (&model.vis, &model.ident);
    let key = format_ident!("{name}Key");
    let fields = model.key_fields();
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let types = fields.iter().map(|field| &field.ty);
    // By value, so that a literal has the type of the field.
    let is_integer = |ty: &&syn::Type| matches!(ty, syn::Type::Path(path) if INTEGERS.iter().any(|name| path.path.is_ident(name)));
    let arguments = types.clone().map(|ty| {
        if is_integer(&ty) {
            quote!(#ty)
        } else {
            quote!(impl __model::Into<#ty>)
        }
    });
    let values = fields.iter().map(|field| {
        let ident = &field.ident;
        if is_integer(&&field.ty) {
            quote!(#ident)
        } else {
            quote!(#ident: __model::Into::into(#ident))
        }
    });
    quote! {
        #[automatically_derived]
        #[allow(dead_code, reason = "not every key is used")]
        impl #key {
            /// Creates the key from its fields.
            #vis fn new(#(#idents: #arguments),*) -> Self {
                Self { #(#values),* }
            }

            /// Returns the address of the document with this key in a partition.
            #vis fn in_partition(
                &self,
                partition: impl __model::Into<__model::PartitionKey>,
            ) -> __model::Address<#name> {
                __model::DocumentKey::in_partition(self, partition)
            }

            /// Patches the document with this key: add the changes to the operation.
            #vis fn patch(&self) -> __model::Patch<#name, __model::Address<#name, #partition>> {
                __model::Patch::new().at(self)
            }

            /// Deletes the document with this key.
            #vis fn delete(&self) -> __model::Delete<#name, #partition> {
                __model::DocumentKey::delete(self)
            }
        }
    }
}

fn write_segment(model: &DocumentModel, segment: &Segment) -> TokenStream {
    match segment {
        Segment::Literal(text) => quote!(.literal(#text)),
        Segment::Field(name) => {
            let Some(field) = model.field(name) else {
                return TokenStream::new();
            };
            let ident = &field.ident;
            // The span is that of the type, which may not be allowed in an id.
            located_at(field.ty.span(), quote!(.field(#name, &self.#ident)))
        }
    }
}

/// Generates the reads of all segments. The second read of a repeated field is compared with the
/// first, which the check for the canonical form cannot do.
fn reads(model: &DocumentModel, reader: &Ident) -> TokenStream {
    let mut seen: Vec<&str> = Vec::new();
    let mut out = TokenStream::new();
    for segment in &model.pattern {
        match segment {
            Segment::Literal(text) => out.extend(quote!(#reader.literal(#text)?;)),
            Segment::Field(name) => {
                let Some(FieldModel { ident, ty, .. }) = model.field(name) else {
                    continue;
                };
                if seen.contains(&&**name) {
                    out.extend(quote!(#reader.repeated(#name, &#ident)?;));
                } else {
                    seen.push(name);
                    out.extend(located_at(
                        ty.span(),
                        quote!(let #ident: #ty = #reader.field(#name)?;),
                    ));
                }
            }
        }
    }
    out
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
    let idents = partition.iter().map(|field| &field.ident);
    let value = quote! {
        __model::PartitionKey::from_values(__model::vec![
            #(__model::PartitionKeyPart::to_partition_key_value(&self.#idents)),*
        ])
    };
    (quote!(__model::PartitionKey), value)
}
