//! The stubs of a container with mistakes: impls that other code uses, so that a mistake causes no
//! further errors.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

use super::expand::Membership;
use super::model::ContainerModel;
use crate::private::import;

/// Generates impls that compile and never run. The empty partition key disables the checks in a
/// container that extends this one.
pub(super) fn stubs(mut model: ContainerModel) -> TokenStream {
    // A type in two variants has been reported; rustc must not report it again.
    let mut seen = HashSet::new();
    model
        .documents
        .retain(|variant| seen.insert(variant.ty.to_token_stream().to_string()));
    let model = &model;
    let import = import(&model.krate);
    let name = &model.ident;
    let text = name.to_string();
    let membership = Membership(model);
    quote! {
        const _: () = {
            #import
            #[automatically_derived]
            impl __model::Container for #name {
                const NAME: &'static __model::str = #text;
                const DISCRIMINATOR: &'static __model::str = "type";
                const PARTITION_KEY: &'static [&'static __model::str] = &[];
                const DOCUMENTS: &'static [&'static __model::DocumentShape] = &[];
                const DEFAULT_TTL: __model::DefaultTtl = __model::DefaultTtl::Off;

                fn decode(
                    _: &__model::str,
                    _: &__model::str,
                ) -> __model::Result<Self, __model::DecodeError> {
                    ::core::unreachable!()
                }

                fn shape(&self) -> &'static __model::DocumentShape {
                    ::core::unreachable!()
                }
            }

            #membership
        };
    }
}
