//! `sql!`: checks a statement against the model. It knows the tokens and the clauses of SQL, not its
//! grammar; the service checks the rest.

mod clauses;
mod columns;
mod conditions;
mod expand;
mod token;

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::{LitStr, Token, Type};

use self::clauses::Clauses;
use self::expand::expand;

/// `"SELECT …" => Row`.
struct Input {
    text: LitStr,
    /// `None` leaves the type of a row to inference.
    row: Option<Type>,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let text = input.parse()?;
        let row = if input.parse::<Option<Token![=>]>>()?.is_some() {
            Some(input.parse()?)
        } else {
            None
        };
        Ok(Self { text, row })
    }
}

/// Returns the value of a statement, or its mistake.
pub(crate) fn statement(input: TokenStream) -> TokenStream {
    let expanded = syn::parse2::<Input>(input).and_then(|input| {
        let tokens = token::read(&input.text)?;
        expand(
            &Clauses::read(tokens, input.text.span())?,
            input.row.as_ref(),
        )
    });
    expanded.unwrap_or_else(syn::Error::into_compile_error)
}
