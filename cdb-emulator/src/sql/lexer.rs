//! Text to tokens, each with its place.

use crate::error::ServiceError;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A keyword or a name; keywords are recognised by the parser, whatever their case.
    Word(String),
    Parameter(String),
    Number(f64),
    Text(String),
    Symbol(&'static str),
    End,
}

/// A token and where it starts, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) at: usize,
}

const SYMBOLS: [&str; 27] = [
    "!=", "<>", "<=", ">=", "||", "??", "(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "=", "<",
    ">", "+", "-", "*", "/", "%", "|", "&", "^",
];

/// Splits a query.
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, ServiceError> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let start = at;
        let token = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c.is_alphabetic() || c == '_' {
            at = end_of(text, at, |c| c.is_alphanumeric() || c == '_');
            Token::Word(text[start..at].to_owned())
        } else if c == '@' {
            at = end_of(text, at + 1, |c| c.is_alphanumeric() || c == '_');
            Token::Parameter(text[start..at].to_owned())
        } else if c.is_ascii_digit() {
            at = end_of_number(text, at);
            Token::Number(
                text[start..at]
                    .parse()
                    .map_err(|_| unexpected(text, start))?,
            )
        } else if c == '"' || c == '\'' {
            let (token, end) = string(text, at, c)?;
            at = end;
            token
        } else {
            let symbol = SYMBOLS
                .into_iter()
                .find(|symbol| text[at..].starts_with(symbol))
                .ok_or_else(|| unexpected(text, at))?;
            at += symbol.len();
            Token::Symbol(symbol)
        };
        out.push(Placed { token, at: start });
    }
    out.push(Placed {
        token: Token::End,
        at,
    });
    Ok(out)
}

fn end_of(text: &str, from: usize, belongs: impl Fn(char) -> bool) -> usize {
    text[from..]
        .find(|c| !belongs(c))
        .map_or(text.len(), |length| from + length)
}

fn end_of_number(text: &str, from: usize) -> usize {
    let digits = |from: usize| end_of(text, from, |c| c.is_ascii_digit());
    let bytes = text.as_bytes();
    let mut at = digits(from);
    if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit) {
            at = digits(at + 1 + sign);
        }
    }
    at
}

/// A string with JSON's escapes, in either kind of quotation marks.
fn string(text: &str, start: usize, quote: char) -> Result<(Token, usize), ServiceError> {
    let mut out = String::new();
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text[start + 1..].char_indices();
    while let Some((offset, c)) = chars.next() {
        if c != '\\' && !units.is_empty() {
            out.push_str(&String::from_utf16_lossy(&units));
            units.clear();
        }
        if c == quote {
            return Ok((Token::Text(out), start + 1 + offset + c.len_utf8()));
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let (_, escaped) = chars.next().ok_or_else(|| unexpected(text, start))?;
        if escaped == 'u' {
            let mut code = 0_u16;
            for _ in 0..4 {
                let digit = chars.next().and_then(|(_, c)| c.to_digit(16));
                let digit = digit.ok_or_else(|| unexpected(text, start))?;
                code = (code << 4) | u16::try_from(digit).unwrap_or_default();
            }
            units.push(code);
            continue;
        }
        out.push_str(&String::from_utf16_lossy(&units));
        units.clear();
        out.push(match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            other => other,
        });
    }
    Err(unexpected(text, start))
}

/// The service's complaint about a place in the text.
pub(super) fn unexpected(text: &str, at: usize) -> ServiceError {
    let rest: String = text[at.min(text.len())..].chars().take(20).collect();
    ServiceError::bad_request(format!(
        "Syntax error at position {at}, incorrect syntax near '{rest}'."
    ))
}
