//! The impl of `Container`: the definition of the container, and the method that reads its
//! documents.

use proc_macro2::TokenStream;
use quote::quote;

use crate::container::attr::{PartitionKeyPaths, TtlSetting};
use crate::container::model::{ContainerModel, Variant};

/// `impl Container`.
pub(super) fn container_impl(model: &ContainerModel) -> TokenStream {
    let name = &model.ident;
    let text = name.to_string();
    let settings = &model.settings;
    let discriminator = settings.discriminator.get().map_or("type", |name| &name.0);
    let (discriminator, partition_key) = if let Some(base) = model.base() {
        let discriminator = inherited(base, &quote!(DISCRIMINATOR));
        (discriminator, inherited(base, &quote!(PARTITION_KEY)))
    } else {
        (quote!(#discriminator), partition_key(model))
    };
    let ttl = default_ttl(model);
    let (documents, decode, shape) = (documents(model), decode(model), shape_of(model));
    // The empty partition key disables the checks in a container that extends this one.
    let [partition_key, documents] =
        [partition_key, documents].map(|list| if model.is_stub { quote!(&[]) } else { list });
    let [decode, shape] = [decode, shape].map(|code| {
        if model.is_stub {
            quote!(::core::unreachable!())
        } else {
            code
        }
    });
    quote! {
        #[automatically_derived]
        impl __model::Container for #name {
            const NAME: &'static __model::str = #text;
            const DISCRIMINATOR: &'static __model::str = #discriminator;
            const PARTITION_KEY: &'static [&'static __model::str] = #partition_key;
            const DOCUMENTS: &'static [&'static __model::DocumentShape] = #documents;
            const DEFAULT_TTL: __model::DefaultTtl = #ttl;

            fn decode(
                discriminator: &__model::str,
                json: &__model::str,
            ) -> __model::Result<Self, __model::DecodeError> {
                #decode
            }

            fn shape(&self) -> &'static __model::DocumentShape {
                #shape
            }
        }
    }
}

/// Returns the given paths, or those of the first type that does not take them from the container.
fn partition_key(model: &ContainerModel) -> TokenStream {
    if let Some(PartitionKeyPaths(paths)) = model.settings.partition_key.get() {
        return quote!(&[#(#paths),*]);
    }
    let mut types = model.documents();
    let first = types.find(|variant| !variant.names(&model.ident));
    let first = first.map(|variant| &variant.ty);
    quote!(<#first as __model::Document>::SHAPE.partition_key)
}

/// Returns an item of the container that this one extends.
fn inherited(base: &Variant, item: &TokenStream) -> TokenStream {
    let base = &base.ty;
    quote!(<#base as __model::Container>::#item)
}

/// Returns the list of inherited types and own types.
fn documents(model: &ContainerModel) -> TokenStream {
    let types = model.documents().map(|variant| &variant.ty);
    let own = quote!(&[#(<#types as __model::Document>::SHAPE),*]);
    let Some(base) = model.base() else {
        return own;
    };
    let base = inherited(base, &quote!(DOCUMENTS));
    quote! {{
        const OWN: &[&__model::DocumentShape] = #own;
        const INHERITED: &[&__model::DocumentShape] = #base;
        const ALL: [&__model::DocumentShape; { OWN.len() + INHERITED.len() }] =
            __model::join_shapes(INHERITED, OWN);
        &ALL
    }}
}

/// Returns the document with its discriminator.
fn decode(model: &ContainerModel) -> TokenStream {
    let types: Vec<_> = model.documents().map(|variant| &variant.ty).collect();
    let variants = model.documents().map(|variant| &variant.ident);
    let rest = if let Some(base) = model.base() {
        let (variant, decode) = (&base.ident, inherited(base, &quote!(decode)));
        quote!(#decode(discriminator, json).map(Self::#variant))
    } else {
        let name = model.ident.to_string();
        quote!(__model::Result::Err(__model::unknown_type(#name, discriminator)))
    };
    quote! {
        #(
            if discriminator == <#types as __model::Document>::SHAPE.discriminator {
                return __model::decode_fields(json).map(Self::#variants);
            }
        )*
        #rest
    }
}

/// Returns the type of a document. Reads the field of every variant, so that the compiler does not
/// warn of dead code.
fn shape_of(model: &ContainerModel) -> TokenStream {
    let variants = model.documents().map(|variant| &variant.ident);
    let base = model.base().map(|base| {
        let variant = &base.ident;
        quote!(Self::#variant(document) => __model::Container::shape(document),)
    });
    quote! {
        match self {
            #(Self::#variants(document) => __model::shape_of(document),)*
            #base
        }
    }
}

/// Returns the given default, or else what the documents need: a type with a `ttl` field needs
/// `PerDocument`.
fn default_ttl(model: &ContainerModel) -> TokenStream {
    match model.settings.default_ttl.get() {
        Some(TtlSetting::Off) => quote!(__model::DefaultTtl::Off),
        Some(TtlSetting::PerDocument) => quote!(__model::DefaultTtl::PerDocument),
        Some(TtlSetting::Seconds(seconds)) => quote!(__model::DefaultTtl::Seconds(#seconds)),
        None => {
            let inherited = model.base().map_or_else(
                || quote!(__model::DefaultTtl::Off),
                |base| inherited(base, &quote!(DEFAULT_TTL)),
            );
            quote!(__model::needed_ttl(#inherited, <Self as __model::Container>::DOCUMENTS))
        }
    }
}
