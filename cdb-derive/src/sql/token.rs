//! The tokens of a statement.

use std::iter::Peekable;
use std::str::Chars;

use syn::{Expr, LitStr};

/// A token, and whether white space precedes it.
#[derive(Clone)]
pub(super) struct Token {
    pub kind: Kind,
    pub spaced: bool,
}

#[derive(Clone)]
pub(super) enum Kind {
    /// A keyword, a name, a number or a string.
    Word(String),
    Symbol(String),
    /// Rust in braces.
    Rust(LitStr),
    /// Tokens in parentheses, brackets or braces.
    Group(char, Vec<Token>, char),
}

impl Token {
    /// Whether the token is this keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(&self.kind, Kind::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    pub(super) fn is_symbol(&self, symbols: &[&str]) -> bool {
        matches!(&self.kind, Kind::Symbol(symbol) if symbols.contains(&symbol.as_str()))
    }

    pub(super) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Returns the constant of a path: `Order::STATE`. Other Rust in braces is a value, such as
    /// `State::Open` or, in parentheses, `(u64::MAX)`.
    pub(super) fn path(&self) -> syn::Result<Option<Expr>> {
        let Kind::Rust(text) = &self.kind else {
            return Ok(None);
        };
        let expr: Expr = text.parse()?;
        let is_constant = matches!(&expr, Expr::Path(path)
            if (path.path.segments.len() > 1 || path.qself.is_some())
                && path.path.segments.last().is_some_and(|last| is_constant_name(&last.ident.to_string())));
        Ok(is_constant.then_some(expr))
    }
}

/// Whether a name is that of a constant: `STATE`, but not the variant `State::Open`.
fn is_constant_name(name: &str) -> bool {
    !name.chars().any(char::is_lowercase)
}

/// Returns the tokens of a statement.
pub(super) fn read(text: &LitStr) -> syn::Result<Vec<Token>> {
    let value = text.value();
    let mut reader = Reader {
        text,
        rest: value.chars().peekable(),
    };
    reader.tokens(None)
}

struct Reader<'a> {
    text: &'a LitStr,
    rest: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    fn error<T>(&self, message: &str) -> syn::Result<T> {
        Err(syn::Error::new(self.text.span(), message))
    }

    /// Reads tokens up to `end`, or to the end of the text.
    fn tokens(&mut self, end: Option<char>) -> syn::Result<Vec<Token>> {
        let (mut tokens, mut spaced) = (Vec::new(), false);
        while let Some(first) = self.rest.next() {
            if first.is_whitespace() {
                spaced = true;
                continue;
            }
            if Some(first) == end {
                if end == Some('}') && self.rest.next() != Some('}') {
                    return self.error("write `}}` for a brace of SQL");
                }
                return Ok(tokens);
            }
            let kind = self.kind(first)?;
            tokens.push(Token { kind, spaced });
            spaced = false;
        }
        match end {
            None => Ok(tokens),
            Some(end) => self.error(&format!("`{end}` is missing")),
        }
    }

    fn kind(&mut self, first: char) -> syn::Result<Kind> {
        Ok(match first {
            '(' => Kind::Group('(', self.tokens(Some(')'))?, ')'),
            '[' => Kind::Group('[', self.tokens(Some(']'))?, ']'),
            '{' if self.rest.next_if_eq(&'{').is_some() => {
                Kind::Group('{', self.tokens(Some('}'))?, '}')
            }
            '{' => Kind::Rust(self.rust()?),
            '\'' | '"' => Kind::Word(self.string(first)?),
            '@' => {
                return self.error(
                    "parameters have no names here: write the Rust value in braces, `{value}`",
                );
            }
            _ if first.is_alphanumeric() || first == '_' => {
                let mut word = String::from(first);
                let is_number = first.is_ascii_digit();
                while let Some(next) = self.rest.next_if(|&next| {
                    next.is_alphanumeric() || next == '_' || (is_number && next == '.')
                }) {
                    word.push(next);
                }
                Kind::Word(word)
            }
            _ => {
                let comment = [('-', '-'), ('/', '*'), ('/', '/')];
                if comment
                    .iter()
                    .any(|(start, next)| first == *start && self.rest.peek() == Some(next))
                {
                    return self.error("a comment would end the statement; write it in Rust");
                }
                let mut symbol = String::from(first);
                let second = self.rest.next_if(|&second| {
                    ["<=", ">=", "!=", "<>", "||", "??"].contains(&&*format!("{first}{second}"))
                });
                symbol.extend(second);
                Kind::Symbol(symbol)
            }
        })
    }

    /// Reads Rust up to its closing brace.
    fn rust(&mut self) -> syn::Result<LitStr> {
        let (mut rust, mut depth) = (String::new(), 0_u32);
        while let Some(next) = self.rest.next() {
            match next {
                '}' if depth == 0 && rust.trim().is_empty() => {
                    return self.error("`{}` names no value; write `{value}` or the constant of a path, such as `{Order::STATE}`");
                }
                '}' if depth == 0 => return Ok(LitStr::new(&rust, self.text.span())),
                '}' => depth -= 1,
                '{' => depth += 1,
                _ => {}
            }
            rust.push(next);
        }
        self.error("`}` is missing; write `{{` for a brace of SQL")
    }

    /// Reads a string up to its closing quotation mark.
    fn string(&mut self, quote: char) -> syn::Result<String> {
        let mut string = String::from(quote);
        while let Some(next) = self.rest.next() {
            string.push(next);
            if next == quote {
                return Ok(string);
            }
            if next == '\\' {
                string.extend(self.rest.next());
            }
        }
        self.error("a string has no closing quotation mark")
    }
}
