//! What both derives have in common: how an annotated type becomes code, or its mistakes.

use darling::Error;
use darling::error::Accumulator;
use proc_macro2::TokenStream;
use quote::quote;

/// The model of an annotated type, with what a derive makes of it.
pub(crate) trait Derived: Sized {
    /// What is derived, for a sentence: "document".
    const WHAT: &'static str;

    /// Reads and judges the type. Nothing only after it has said why.
    fn read(input: &syn::DeriveInput, errors: &mut Accumulator) -> Option<Self>;

    /// The code of a type without mistakes.
    fn expand(&self) -> TokenStream;

    /// Code that keeps a type with mistakes from causing further errors where it is used.
    fn stubs(self) -> TokenStream;
}

/// The derive, on plain tokens.
pub(crate) fn derive<M: Derived>(input: TokenStream) -> TokenStream {
    let input: syn::DeriveInput = match syn::parse2(input) {
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
    /// All of them.
    error: Error,
    /// As much of the type as could be read; nothing when not even a stub makes sense.
    model: Option<Box<M>>,
}

/// The model, or what is wrong with it and as much of it as could be read.
fn checked<M: Derived>(input: &syn::DeriveInput) -> Result<M, Refused<M>> {
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
            error: crate::diag::mistake(input.ident.span(), format!("this is no {}", M::WHAT)),
            model: None,
        }),
    }
}

/// The diagnostics of a type, a line each.
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
