//! The tokens of a Rust source, as far as the module system needs them.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// Splits a source into words, literals, `::`, arrows and single signs, without comments.
pub(super) fn tokens(source: &str) -> Vec<String> {
    let stream: TokenStream = source.parse().expect("the source is Rust");
    let mut found = Vec::new();
    flatten(stream, &mut found);
    found
}

fn flatten(stream: TokenStream, found: &mut Vec<String>) {
    let mut is_joined = false;
    for tree in stream {
        let joins = is_joined;
        is_joined = false;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                found.push(open.to_owned());
                flatten(group.stream(), found);
                found.push(close.to_owned());
            }
            TokenTree::Punct(sign) => match found.last_mut() {
                Some(last) if joins && is_sign(last, sign.as_char()) => last.push(sign.as_char()),
                _ => {
                    is_joined = sign.spacing() == Spacing::Joint;
                    found.push(sign.to_string());
                }
            },
            TokenTree::Ident(_) | TokenTree::Literal(_) => found.push(tree.to_string()),
        }
    }
}

/// Whether two signs are one token here.
fn is_sign(first: &str, second: char) -> bool {
    matches!((first, second), (":", ':') | ("-" | "=", '>'))
}
