//! The generated code, one file per kind of item.

mod conflicts;
mod definition;
mod membership;

use proc_macro2::TokenStream;
use quote::quote;

pub(super) use membership::Membership;

use super::model::ContainerModel;
use crate::private::import;

/// Generates the code of `#[derive(Container)]`.
pub(super) fn container(model: &ContainerModel) -> TokenStream {
    let definition = definition::ContainerImpl(model);
    let membership = Membership(model);
    let conflicts = conflicts::Conflicts(model);
    let import = import(&model.krate);
    quote! {
        const _: () = {
            #import
            #definition
            #membership
            #conflicts
        };
    }
}
