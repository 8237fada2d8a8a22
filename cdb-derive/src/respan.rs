//! Puts generated tokens where the user's own token stands, so that the compiler underlines that one.

use proc_macro2::{Group, Span, TokenStream, TokenTree};

/// `tokens`, all of them located at `span`; each name still means what it meant.
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
    let meaning = token.span();
    token.set_span(span.resolved_at(meaning));
    token
}
