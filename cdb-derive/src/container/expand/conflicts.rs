//! Facts across types, which no single derive can see: left to the constant evaluator, at the variant that causes them.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};

use super::private;
use crate::container::model::ContainerModel;

/// One constant per document type, compared with all types before it.
pub(super) struct Conflicts<'a>(pub(super) &'a ContainerModel);

impl ToTokens for Conflicts<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let model = self.0;
        let private = private(model);
        let name = &model.ident;
        // Inherited types come first in `DOCUMENTS` and were compared with each other by their own container.
        let own = model.documents.len();
        for (at, document) in model.documents.iter().enumerate() {
            let from_end = own - at;
            tokens.extend(quote_spanned! {document.ident.span()=>
                const _: () = #private::check_member(
                    <#name as #private::Container>::DOCUMENTS,
                    <#name as #private::Container>::DOCUMENTS.len() - #from_end,
                    <#name as #private::Container>::PARTITION_KEY,
                    <#name as #private::Container>::DISCRIMINATOR,
                );
            });
        }
        tokens.extend(quote_spanned! {name.span()=>
            const _: () = #private::check_limits(<#name as #private::Container>::DOCUMENTS);
        });
    }
}
