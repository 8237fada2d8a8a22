//! The impl of `Container`: the definition of the container, and the method that reads its
//! documents.

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
        let discriminator = match &model.discriminator {
            Some(property) => quote!(#property),
            None => inherited(model, &quote!(DISCRIMINATOR)),
        };
        let partition_key = match &model.base {
            Some(_) => inherited(model, &quote!(PARTITION_KEY)),
            None => path_list(&model.partition_key),
        };
        let ttl = default_ttl(model);
        let (documents, decode, shape) = (Documents(model), Decode(model), ShapeOf(model));
        tokens.extend(quote! {
            #[automatically_derived]
            impl #private::Container for #name {
                const NAME: &'static #private::str = #text;
                const DISCRIMINATOR: &'static #private::str = #discriminator;
                const PARTITION_KEY: &'static [&'static #private::str] = #partition_key;
                const DOCUMENTS: &'static [&'static #private::DocumentShape] = #documents;
                const DEFAULT_TTL: #private::DefaultTtl = #ttl;

                #decode

                #shape
            }
        });
    }
}

/// Returns an item of the container that this one extends.
fn inherited(model: &ContainerModel, item: &TokenStream) -> TokenStream {
    let private = private();
    let base = model.base.as_ref().map(|base| &base.ty);
    quote!(<#base as #private::Container>::#item)
}

fn path_list(paths: &[String]) -> TokenStream {
    quote!(&[#(#paths),*])
}

/// The list of inherited types and own types.
struct Documents<'a>(&'a ContainerModel);

impl ToTokens for Documents<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let private = private();
        let types = self.0.documents.iter().map(|variant| &variant.ty);
        let own = quote!(&[#(<#types as #private::Document>::SHAPE),*]);
        if self.0.base.is_none() {
            tokens.extend(own);
            return;
        }
        let base = inherited(self.0, &quote!(DOCUMENTS));
        tokens.extend(quote! {{
            const OWN: &[&#private::DocumentShape] = #own;
            const INHERITED: &[&#private::DocumentShape] = #base;
            const ALL: [&#private::DocumentShape; { OWN.len() + INHERITED.len() }] =
                #private::join_shapes(INHERITED, OWN);
            &ALL
        }});
    }
}

/// The method that reads a document by its discriminator.
struct Decode<'a>(&'a ContainerModel);

impl ToTokens for Decode<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let private = private();
        let types: Vec<_> = model.documents.iter().map(|variant| &variant.ty).collect();
        let variants = model.documents.iter().map(|variant| &variant.ident);
        let rest = if let Some(base) = &model.base {
            let (variant, decode) = (&base.ident, inherited(model, &quote!(decode)));
            quote!(#decode(discriminator, json).map(Self::#variant))
        } else {
            let name = model.ident.to_string();
            quote!(#private::Result::Err(#private::unknown_type(#name, discriminator)))
        };
        tokens.extend(quote! {
            fn decode(
                discriminator: &#private::str,
                json: &#private::str,
            ) -> #private::Result<Self, #private::DecodeError> {
                #(
                    if discriminator == <#types as #private::Document>::SHAPE.discriminator {
                        return #private::decode_fields(json).map(Self::#variants);
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
        let private = private();
        let variants = self.0.documents.iter().map(|variant| &variant.ident);
        let base = self.0.base.as_ref().map(|base| {
            let variant = &base.ident;
            quote!(Self::#variant(document) => #private::Container::shape(document),)
        });
        tokens.extend(quote! {
            fn shape(&self) -> &'static #private::DocumentShape {
                match self {
                    #(Self::#variants(document) => #private::shape_of(document),)*
                    #base
                }
            }
        });
    }
}

/// Returns the given default, or else what the documents need: a type with a `ttl` field needs
/// `PerDocument`.
fn default_ttl(model: &ContainerModel) -> TokenStream {
    let private = private();
    match model.default_ttl {
        Some(TtlSetting::Off) => quote!(#private::DefaultTtl::Off),
        Some(TtlSetting::PerDocument) => quote!(#private::DefaultTtl::PerDocument),
        Some(TtlSetting::Seconds(seconds)) => quote!(#private::DefaultTtl::Seconds(#seconds)),
        None => {
            let inherited = if model.base.is_some() {
                inherited(model, &quote!(DEFAULT_TTL))
            } else {
                quote!(#private::DefaultTtl::Off)
            };
            quote!(#private::needed_ttl(#inherited, <Self as #private::Container>::DOCUMENTS))
        }
    }
}
