//! The checks between document types, which no single derive can see. The compiler evaluates them
//! as constants and reports them at the variant.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::container::model::ContainerModel;
use crate::output::respan::located_at;

/// The rules of `cdb_model::conflict`. Each is a separate constant, so that one compilation reports
/// all mistakes.
const RULES: [&str; 9] = [
    "check_partition_key",
    "check_discriminator",
    "check_type",
    "check_ids",
    "check_indexing",
    "check_ttl",
    "check_computed",
    "check_search",
    "check_unique",
];

/// One constant per variant and rule, which compares the variant with the container and with all
/// types before it.
pub(super) fn conflicts(model: &ContainerModel) -> TokenStream {
    let mut tokens = TokenStream::new();
    let name = &model.ident;
    let container = name.to_string();
    // Inherited types are first in `DOCUMENTS`; their own container has compared them with each
    // other.
    let own = model.documents().count();
    for (at, document) in model.documents().enumerate() {
        let from_end = own - at;
        for rule in RULES {
            let rule = format_ident!("{rule}");
            let check = quote! {
                const _: () = __model::#rule(
                    &__model::Place::new::<#name>(#container, #from_end)
                );
            };
            tokens.extend(located_at(document.ident.span(), check));
        }
    }
    tokens
}
