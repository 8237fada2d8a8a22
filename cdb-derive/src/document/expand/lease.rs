//! The trait of a document with a lease.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;

use crate::document::model::DocumentModel;
use crate::respan::located_at;

/// The impl of `Leasable` for a type with a lease; empty for other types.
pub(super) struct LeaseImpl<'a>(pub(super) &'a DocumentModel);

impl ToTokens for LeaseImpl<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let Some(field) = model.marked(|field| field.lease) else {
            return;
        };
        let (name, ident) = (&model.ident, &field.ident);
        let or_absent = field.may_be_absent.then(|| quote!(.or_absent()));
        let paths =
            ["", "/until", "/token", "/mark"].map(|inner| format!("/{}{inner}", field.stored));
        // The span is that of the type, which may not be a lease.
        let located = |tokens| located_at(field.ty.span(), tokens);
        let get = located(quote!(__model::LeaseField::as_lease(&self.#ident)));
        let set = located(quote!(__model::LeaseField::put_lease(&mut self.#ident, lease)));
        tokens.extend(quote! {
            #[automatically_derived]
            impl __model::Leasable for #name {
                const LEASE_PATHS: __model::LeasePaths<Self> =
                    __model::LeasePaths::new([#(#paths),*]) #or_absent;

                fn lease(&self) -> &__model::Lease {
                    #get
                }

                fn set_lease(&mut self, lease: __model::Lease) {
                    #set
                }
            }
        });
    }
}
