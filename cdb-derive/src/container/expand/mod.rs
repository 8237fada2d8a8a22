//! The generated code, one file per kind of item.

mod conflicts;
mod definition;
mod membership;

use proc_macro2::TokenStream;
use quote::quote;

use super::model::ContainerModel;
use crate::output::private::import;

/// Generates the code of `#[derive(Container)]`.
pub(super) fn container(model: &ContainerModel) -> TokenStream {
    let definition = definition::container_impl(model);
    let membership = membership::membership(model);
    let conflicts = (!model.is_stub).then(|| conflicts::conflicts(model));
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
