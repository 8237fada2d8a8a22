//! The trait of a document with a lease.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;

use super::private;
use crate::document::model::DocumentModel;
use crate::respan::located_at;

/// The impl of `Leasable` for a type with a lease; empty for other types.
pub(super) struct LeaseImpl<'a>(pub(super) &'a DocumentModel);

impl ToTokens for LeaseImpl<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let Some(field) = model.lease() else { return };
        let private = private();
        let (name, ident) = (&model.ident, &field.ident);
        let or_absent = field.may_be_absent.then(|| quote!(.or_absent()));
        let paths =
            ["", "/until", "/token", "/mark"].map(|inner| format!("/{}{inner}", field.stored));
        // The span is that of the type, which may not be a lease.
        let located = |tokens| located_at(field.ty.span(), tokens);
        let get = located(quote!(#private::LeaseField::as_lease(&self.#ident)));
        let set = located(quote!(#private::LeaseField::put_lease(&mut self.#ident, lease)));
        tokens.extend(quote! {
            #[automatically_derived]
            impl #private::Leasable for #name {
                const LEASE_PATHS: #private::LeasePaths<Self> =
                    #private::LeasePaths::new([#(#paths),*]) #or_absent;

                fn lease(&self) -> &#private::Lease {
                    #get
                }

                fn set_lease(&mut self, lease: #private::Lease) {
                    #set
                }
            }
        });
    }
}
