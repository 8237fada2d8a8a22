//! Moves generated tokens to the span of a user's token, so that the compiler underlines that
//! token.

use proc_macro2::{Group, Span, TokenStream, TokenTree};

/// Returns `tokens` located at `span`. Names still resolve as before.
pub(crate) fn located_at(span: Span, tokens: TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| locate(span, token))
        .collect()
}

fn locate(span: Span, token: TokenTree) -> TokenTree {
    let mut token = match token {
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), located_at(span, group.stream()));
            inner.set_span(group.span());
            TokenTree::Group(inner)
        }
        other => other,
    };
    token.set_span(span.resolved_at(token.span()));
    token
}
