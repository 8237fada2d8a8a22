//! The trait `Container`: what the container is made of, and how any of its documents is read.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::private;
use crate::container::attr::TtlSetting;
use crate::container::model::ContainerModel;

/// `impl Container`.
pub(super) struct ContainerImpl<'a>(pub(super) &'a ContainerModel);

impl ToTokens for ContainerImpl<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let private = private();
        let name = &model.ident;
        let text = name.to_string();
        let types: Vec<_> = model.documents.iter().map(|variant| &variant.ty).collect();
        let variants: Vec<_> = model
            .documents
            .iter()
            .map(|variant| &variant.ident)
            .collect();
        let base = model.base.as_ref().map(|base| &base.ty);
        let inherited = |item: TokenStream| quote!(<#base as #private::Container>::#item);
        let discriminator = match &model.discriminator {
            Some(property) => quote!(#property),
            None => inherited(quote!(DISCRIMINATOR)),
        };
        let partition_key = if model.base.is_some() {
            inherited(quote!(PARTITION_KEY))
        } else {
            let paths = &model.partition_key;
            quote!(&[#(#paths),*])
        };
        let inherited_documents = match base {
            Some(base) => quote!(<#base as #private::Container>::DOCUMENTS),
            None => quote!(&[]),
        };
        let rest = match &model.base {
            Some(base) => {
                let (variant, ty) = (&base.ident, &base.ty);
                quote!(<#ty as #private::Container>::decode(discriminator, json).map(Self::#variant))
            }
            None => quote!(#private::Result::Err(#private::unknown_type(#text, discriminator))),
        };
        let ttl = default_ttl(model, &private);
        tokens.extend(quote! {
            #[automatically_derived]
            impl #private::Container for #name {
                const NAME: &'static #private::str = #text;
                const DISCRIMINATOR: &'static #private::str = #discriminator;
                const PARTITION_KEY: &'static [&'static #private::str] = #partition_key;
                const DOCUMENTS: &'static [&'static #private::DocumentShape] = {
                    const OWN: &[&#private::DocumentShape] =
                        &[#(<#types as #private::Document>::SHAPE),*];
                    const INHERITED: &[&#private::DocumentShape] = #inherited_documents;
                    const ALL: [&#private::DocumentShape; { OWN.len() + INHERITED.len() }] =
                        #private::join_shapes(INHERITED, OWN);
                    &ALL
                };
                const DEFAULT_TTL: #private::DefaultTtl = #ttl;

                fn decode(
                    discriminator: &#private::str,
                    json: &#private::str,
                ) -> #private::Result<Self, #private::DecodeError> {
                    #(
                        if discriminator == <#types as #private::Document>::SHAPE.discriminator {
                            return #private::decode_fields(
                                <#types as #private::Document>::SHAPE.name,
                                json,
                            )
                            .map(Self::#variants);
                        }
                    )*
                    #rest
                }
            }
        });
    }
}

/// What was asked for, or what the documents need: one with a `ttl` of its own needs expiry to be on.
fn default_ttl(model: &ContainerModel, private: &TokenStream) -> TokenStream {
    match model.default_ttl {
        Some(TtlSetting::Off) => quote!(#private::DefaultTtl::Off),
        Some(TtlSetting::PerDocument) => quote!(#private::DefaultTtl::PerDocument),
        Some(TtlSetting::Seconds(seconds)) => quote!(#private::DefaultTtl::Seconds(#seconds)),
        None => {
            let inherited = match &model.base {
                Some(base) => {
                    let ty = &base.ty;
                    quote!(<#ty as #private::Container>::DEFAULT_TTL)
                }
                None => quote!(#private::DefaultTtl::Off),
            };
            quote!(#private::needed_ttl(#inherited, <Self as #private::Container>::DOCUMENTS))
        }
    }
}
