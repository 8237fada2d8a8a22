//! The steps that both derives share: from an annotated type to code or diagnostics.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Data, DeriveInput, Field, Fields, Token};

use crate::input::diag::mistake;

/// The model of an annotated type.
pub(crate) trait Derived: Sized {
    /// Reads and checks the type. Adds an error whenever it returns `None`.
    fn read(input: &DeriveInput, errors: &mut Accumulator) -> Option<Self>;

    /// Generates the code of a type without mistakes.
    fn expand(&self) -> TokenStream;

    /// Generates stubs for a type with mistakes, so that its uses cause no further errors.
    fn stubs(self) -> TokenStream;
}

/// A list of fields.
type NamedFields = Punctuated<Field, Token![,]>;

/// Returns the fields of a struct. Reports `text` if the type is not a struct with named fields.
pub(crate) fn named_fields<'a>(
    input: &'a DeriveInput,
    text: &str,
    errors: &mut Accumulator,
) -> Option<&'a NamedFields> {
    if let Data::Struct(data) = &input.data
        && let Fields::Named(fields) = &data.fields
    {
        return Some(&fields.named);
    }
    errors.push(mistake(input.ident.span(), text));
    None
}

/// Whether a type contains a name for which `is_meant` holds.
pub(crate) fn names(ty: TokenStream, is_meant: &impl Fn(&Ident) -> bool) -> bool {
    ty.into_iter().any(|token| match token {
        TokenTree::Group(group) => names(group.stream(), is_meant),
        TokenTree::Ident(ident) => is_meant(&ident),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Derives the code of a type, as plain tokens.
pub(crate) fn derive<M: Derived>(input: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    match checked::<M>(&input) {
        Ok(model) => model.expand(),
        Err(Refused { error, model }) => {
            let errors = error.write_errors();
            let stubs = model.map(|model| model.stubs());
            quote!(#errors #stubs)
        }
    }
}

/// A type with mistakes.
#[derive(Debug)]
struct Refused<M> {
    /// All mistakes.
    error: Error,
    /// The readable part of the type; `None` if it does not suffice for stubs.
    model: Option<Box<M>>,
}

/// Returns the model, or the mistakes with the readable part of the model.
fn checked<M: Derived>(input: &DeriveInput) -> Result<M, Refused<M>> {
    let mut errors = Error::accumulator();
    let model = M::read(input, &mut errors);
    match (errors.finish(), model) {
        (Ok(()), Some(model)) => Ok(model),
        (Err(error), model) => Err(Refused {
            error,
            model: model
                .filter(|_| input.generics.params.is_empty())
                .map(Box::new),
        }),
        (Ok(()), None) => Err(Refused {
            error: mistake(input.ident.span(), "this type cannot be derived"),
            model: None,
        }),
    }
}

/// Returns the diagnostics of a type, one per line.
#[cfg(test)]
pub(crate) fn mistakes<M: Derived>(input: TokenStream) -> String {
    let input = syn::parse2(input).expect("the test writes Rust");
    match checked::<M>(&input) {
        Ok(_) => String::new(),
        Err(Refused { error, .. }) => {
            let lines: Vec<_> = error
                .flatten()
                .into_iter()
                .map(|error| error.to_string())
                .collect();
            lines.join("\n") + "\n"
        }
    }
}
