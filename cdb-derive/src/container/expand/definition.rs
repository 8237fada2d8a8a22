//! The impl of `Container`: the definition of the container, and the method that reads its
//! documents.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use crate::container::attr::TtlSetting;
use crate::container::model::ContainerModel;

/// `impl Container`.
pub(super) struct ContainerImpl<'a>(pub(super) &'a ContainerModel);

impl ToTokens for ContainerImpl<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let name = &model.ident;
        let text = name.to_string();
        let discriminator = match &model.discriminator {
            Some(property) => quote!(#property),
            None => inherited(model, &quote!(DISCRIMINATOR)),
        };
        let (paths, key_type) = (&model.partition_key, &model.key_type);
        let partition_key = match &model.base {
            Some(_) => inherited(model, &quote!(PARTITION_KEY)),
            None if paths.is_empty() => {
                quote!(<#key_type as __model::Document>::SHAPE.partition_key)
            }
            None => quote!(&[#(#paths),*]),
        };
        let ttl = default_ttl(model);
        let (documents, decode, shape) = (Documents(model), Decode(model), ShapeOf(model));
        tokens.extend(quote! {
            #[automatically_derived]
            impl __model::Container for #name {
                const NAME: &'static __model::str = #text;
                const DISCRIMINATOR: &'static __model::str = #discriminator;
                const PARTITION_KEY: &'static [&'static __model::str] = #partition_key;
                const DOCUMENTS: &'static [&'static __model::DocumentShape] = #documents;
                const DEFAULT_TTL: __model::DefaultTtl = #ttl;

                #decode

                #shape
            }
        });
    }
}

/// Returns an item of the container that this one extends.
fn inherited(model: &ContainerModel, item: &TokenStream) -> TokenStream {
    let base = model.base.as_ref().map(|base| &base.ty);
    quote!(<#base as __model::Container>::#item)
}

/// The list of inherited types and own types.
struct Documents<'a>(&'a ContainerModel);

impl ToTokens for Documents<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let types = self.0.documents.iter().map(|variant| &variant.ty);
        let own = quote!(&[#(<#types as __model::Document>::SHAPE),*]);
        if self.0.base.is_none() {
            tokens.extend(own);
            return;
        }
        let base = inherited(self.0, &quote!(DOCUMENTS));
        tokens.extend(quote! {{
            const OWN: &[&__model::DocumentShape] = #own;
            const INHERITED: &[&__model::DocumentShape] = #base;
            const ALL: [&__model::DocumentShape; { OWN.len() + INHERITED.len() }] =
                __model::join_shapes(INHERITED, OWN);
            &ALL
        }});
    }
}

/// The method that reads a document by its discriminator.
struct Decode<'a>(&'a ContainerModel);

impl ToTokens for Decode<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let types: Vec<_> = model.documents.iter().map(|variant| &variant.ty).collect();
        let variants = model.documents.iter().map(|variant| &variant.ident);
        let rest = if let Some(base) = &model.base {
            let (variant, decode) = (&base.ident, inherited(model, &quote!(decode)));
            quote!(#decode(discriminator, json).map(Self::#variant))
        } else {
            let name = model.ident.to_string();
            quote!(__model::Result::Err(__model::unknown_type(#name, discriminator)))
        };
        tokens.extend(quote! {
            fn decode(
                discriminator: &__model::str,
                json: &__model::str,
            ) -> __model::Result<Self, __model::DecodeError> {
                #(
                    if discriminator == <#types as __model::Document>::SHAPE.discriminator {
                        return __model::decode_fields(json).map(Self::#variants);
                    }
                )*
                #rest
            }
        });
    }
}

/// The method that returns the type of a document. It reads the field of every variant, so that the
/// compiler does not warn of dead code.
struct ShapeOf<'a>(&'a ContainerModel);

impl ToTokens for ShapeOf<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let variants = self.0.documents.iter().map(|variant| &variant.ident);
        let base = self.0.base.as_ref().map(|base| {
            let variant = &base.ident;
            quote!(Self::#variant(document) => __model::Container::shape(document),)
        });
        tokens.extend(quote! {
            fn shape(&self) -> &'static __model::DocumentShape {
                match self {
                    #(Self::#variants(document) => __model::shape_of(document),)*
                    #base
                }
            }
        });
    }
}

/// Returns the given default, or else what the documents need: a type with a `ttl` field needs
/// `PerDocument`.
fn default_ttl(model: &ContainerModel) -> TokenStream {
    match model.default_ttl {
        Some(TtlSetting::Off) => quote!(__model::DefaultTtl::Off),
        Some(TtlSetting::PerDocument) => quote!(__model::DefaultTtl::PerDocument),
        Some(TtlSetting::Seconds(seconds)) => quote!(__model::DefaultTtl::Seconds(#seconds)),
        None => {
            let inherited = if model.base.is_some() {
                inherited(model, &quote!(DEFAULT_TTL))
            } else {
                quote!(__model::DefaultTtl::Off)
            };
            quote!(__model::needed_ttl(#inherited, <Self as __model::Container>::DOCUMENTS))
        }
    }
}
