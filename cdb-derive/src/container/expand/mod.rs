//! The generated code, one file per kind of item.

mod conflicts;
mod definition;
mod membership;

use proc_macro2::TokenStream;
use quote::quote;

use super::model::ContainerModel;
use crate::private::import;

/// Generates the code of `#[derive(Container)]`.
pub(super) fn container(model: &ContainerModel) -> TokenStream {
    let definition = definition::ContainerImpl(model);
    let membership = membership::Membership(model);
    let conflicts = (!model.is_stub).then_some(conflicts::Conflicts(model));
    let import = import(&model.settings.krate.path());
    quote! {
        const _: () = {
            #import
            #definition
            #membership
            #conflicts
        };
    }
}
