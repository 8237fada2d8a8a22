//! Splits text into tokens with their locations.
//!
//! Names are ASCII, and strings have no raw control characters, as in the grammar of the .NET SDK
//! (`sql.g4`).

use super::error::{Location, invalid_string, invalid_token};
use crate::protocol::ServiceError;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A keyword or a name. The parser recognizes keywords in any case.
    Word(String),
    Parameter(String),
    Number(f64),
    Text(String),
    Symbol(&'static str),
    End,
}

/// A token and its location.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LocatedToken {
    pub(super) token: Token,
    pub(super) location: Location,
}

/// The symbols, longer ones first: `>>>` is not `>>` and `>`.
const SYMBOLS: [&str; 31] = [
    ">>>", "<<", ">>", "!=", "<>", "<=", ">=", "||", "??", "(", ")", "[", "]", "{", "}", ",", ".",
    ":", "?", "=", "<", ">", "+", "-", "*", "/", "%", "|", "&", "^", "~",
];

/// Splits a query into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<LocatedToken>, ServiceError> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let start = at;
        let token = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if text[at..].starts_with("--") {
            at = text[at..].find('\n').map_or(text.len(), |end| at + end);
            continue;
        } else if is_letter(c) {
            at = end_of(text, at, is_part_of_name);
            Token::Word(text[start..at].to_owned())
        } else if c == '@' {
            at = end_of(text, at + 1, is_part_of_name);
            Token::Parameter(text[start..at].to_owned())
        } else if let Some((number, end)) = hexadecimal(text, at) {
            at = end;
            Token::Number(number)
        } else if begins_number(&text.as_bytes()[at..]) {
            at = end_of_number(text, at);
            let number: Option<f64> = text[start..at].parse().ok();
            let number = number.filter(|number| number.is_finite());
            Token::Number(number.ok_or_else(|| invalid_token(text, start..at))?)
        } else if c == '"' || c == '\'' {
            let (token, end) = string(text, at, c)?;
            at = end;
            token
        } else {
            let symbol = SYMBOLS
                .into_iter()
                .find(|symbol| text[at..].starts_with(symbol))
                .ok_or_else(|| invalid_token(text, at..at + c.len_utf8()))?;
            at += symbol.len();
            Token::Symbol(symbol)
        };
        out.push(LocatedToken {
            token,
            location: start..at,
        });
    }
    out.push(LocatedToken {
        token: Token::End,
        location: at..at,
    });
    Ok(out)
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn begins_number(bytes: &[u8]) -> bool {
    match bytes {
        [b'.', digit, ..] | [digit, ..] => digit.is_ascii_digit(),
        [] => false,
    }
}

/// Reads a hexadecimal number such as `0x1F` of at most 64 bits. Returns it with its end.
fn hexadecimal(text: &str, at: usize) -> Option<(f64, usize)> {
    let from = at + 2;
    if !text[at..].starts_with("0x") && !text[at..].starts_with("0X") {
        return None;
    }
    let end = end_of(text, from, |c| c.is_ascii_hexdigit());
    let bits = u64::from_str_radix(&text[from..end], 16).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "numbers are doubles")]
    let number = bits as f64;
    Some((number, end))
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
    if bytes.get(at) == Some(&b'.') {
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

/// Reads a string with JSON escapes, in single or double quotation marks.
fn string(text: &str, start: usize, quote: char) -> Result<(Token, usize), ServiceError> {
    let invalid = || invalid_string(text, start);
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
        if c.is_control() && c.is_ascii() && c != '\u{7f}' {
            return Err(invalid());
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let (_, escaped) = chars.next().ok_or_else(invalid)?;
        if escaped == 'u' {
            let mut code = 0_u16;
            for _ in 0..4 {
                let digit = chars.next().and_then(|(_, c)| c.to_digit(16));
                let digit = digit.ok_or_else(invalid)?;
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
            '"' | '\'' | '\\' | '/' => escaped,
            _ => return Err(invalid()),
        });
    }
    Err(invalid())
}
