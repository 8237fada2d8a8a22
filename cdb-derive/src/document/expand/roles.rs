//! What the roles of fields generate beyond members of the shape and checks of types: the traits of
//! a document with a lease or a soft deletion.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;

use super::item::{body, implement};
use crate::document::model::{DocumentModel, FieldModel};
use crate::document::role::Role;
use crate::output::respan::located_at;

/// The impls of `Leasable` and `SoftDelete`.
pub(super) fn role_impls(model: &DocumentModel) -> TokenStream {
    let mut tokens = TokenStream::new();
    let lease = model.in_role(Role::Lease).next();
    tokens.extend(lease.map(|(field, _)| leasable(model, field)));
    let soft_delete = model.in_role(Role::SoftDelete).next();
    tokens.extend(soft_delete.map(|(field, _)| soft_delete_impl(model, field)));
    tokens
}

fn leasable(model: &DocumentModel, field: &FieldModel) -> TokenStream {
    let (ty, ident) = (model.ty(), &field.ident);
    let or_absent = field.default.is_some().then(|| quote!(.or_absent()));
    let paths = ["", "/until", "/token", "/mark"].map(|inner| format!("/{}{inner}", field.stored));
    // The span is that of the type, which may not be a lease.
    let located = |tokens| body(model, located_at(field.ty.span(), tokens));
    let get = located(quote!(__model::LeaseField::as_lease(&self.#ident)));
    let set = located(quote!(__model::LeaseField::put_lease(&mut self.#ident, lease)));
    let items = quote! {
        const LEASE_PATHS: __model::LeasePaths<Self> =
            __model::LeasePaths::new([#(#paths),*]) #or_absent;

        fn lease(&self) -> &__model::Lease {
            #get
        }

        fn set_lease(&mut self, lease: __model::Lease) {
            #set
        }
    };
    implement(model, &quote!(__model::Leasable for #ty), &items)
}

fn soft_delete_impl(model: &DocumentModel, field: &FieldModel) -> TokenStream {
    let (ty, path) = (model.ty(), field.pointer());
    let items = quote! {
        const TIME_OF_DELETION: __model::DeletionPath<Self> = __model::Path::new(#path);
    };
    implement(model, &quote!(__model::SoftDelete for #ty), &items)
}
