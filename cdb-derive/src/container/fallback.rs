//! The stubs of a container with mistakes: impls that other code uses, so that a mistake causes no
//! further errors.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::expand::Membership;
use super::model::ContainerModel;
use crate::private::{import, private};

/// Generates impls that compile and never run. The empty partition key disables the checks in a
/// container that extends this one.
pub(super) fn stubs(mut model: ContainerModel) -> TokenStream {
    // A type in two variants has been reported; rustc must not report it again.
    let mut seen = HashSet::new();
    model
        .documents
        .retain(|variant| seen.insert(variant.ty.to_token_stream().to_string()));
    let model = &model;
    let (import, private) = (import(&model.krate), private());
    let name = &model.ident;
    let text = name.to_string();
    let membership = Membership(model);
    quote! {
        const _: () = {
            #import
            #[automatically_derived]
            impl #private::Container for #name {
                const NAME: &'static #private::str = #text;
                const DISCRIMINATOR: &'static #private::str = "type";
                const PARTITION_KEY: &'static [&'static #private::str] = &[];
                const DOCUMENTS: &'static [&'static #private::DocumentShape] = &[];
                const DEFAULT_TTL: #private::DefaultTtl = #private::DefaultTtl::Off;

                fn decode(
                    _: &#private::str,
                    _: &#private::str,
                ) -> #private::Result<Self, #private::DecodeError> {
                    ::core::unreachable!()
                }

                fn shape(&self) -> &'static #private::DocumentShape {
                    ::core::unreachable!()
                }
            }

            #membership
        };
    }
}
