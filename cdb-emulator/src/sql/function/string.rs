//! Functions on text. Positions count characters from 0.

use serde_json::Value;

use super::call::{Call, Function};

/// Maximum length of the result of REPLICATE, by its reference.
const MAX_REPLICATED: usize = 10_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("CONCAT", 2, usize::MAX, concat),
    Function::new("CONTAINS", 2, 3, |call| {
        test(call, |text, part| text.contains(part))
    }),
    Function::new("STARTSWITH", 2, 3, |call| {
        test(call, |text, part| text.starts_with(part))
    }),
    Function::new("ENDSWITH", 2, 3, |call| {
        test(call, |text, part| text.ends_with(part))
    }),
    Function::new("STRINGEQUALS", 2, 3, |call| {
        test(call, |text, part| text == part)
    }),
    Function::new("CONTAINS_ALL_CS", 2, usize::MAX, |call| {
        contains(call, true, false)
    }),
    Function::new("CONTAINS_ALL_CI", 2, usize::MAX, |call| {
        contains(call, true, true)
    }),
    Function::new("CONTAINS_ANY_CS", 2, usize::MAX, |call| {
        contains(call, false, false)
    }),
    Function::new("CONTAINS_ANY_CI", 2, usize::MAX, |call| {
        contains(call, false, true)
    }),
    Function::new("REGEXMATCH", 2, 3, |call| {
        let modifiers = call.optional(2, "", Call::text)?;
        let (text, pattern) = (call.text(0)?, call.text(1)?);
        call.charge(text.len() + pattern.len())?;
        let matched = call.context.patterns.is_match(text, pattern, modifiers);
        call.checked(matched)?.map(Value::Bool)
    }),
    Function::new("INDEX_OF", 2, 3, index_of),
    Function::new("LASTINDEXOF", 2, 3, last_index_of),
    Function::new("LENGTH", 1, 1, |call| {
        Some(call.text(0)?.chars().count().into())
    }),
    Function::new("LOWER", 1, 1, |call| {
        Some(call.text(0)?.to_lowercase().into())
    }),
    Function::new("UPPER", 1, 1, |call| {
        Some(call.text(0)?.to_uppercase().into())
    }),
    Function::new("TRIM", 1, 2, |call| trim(call, true, true)),
    Function::new("LTRIM", 1, 2, |call| trim(call, true, false)),
    Function::new("RTRIM", 1, 2, |call| trim(call, false, true)),
    Function::new("LEFT", 2, 2, |call| {
        Some(part(call.text(0)?, 0, call.integer(1)?))
    }),
    Function::new("RIGHT", 2, 2, right),
    Function::new("SUBSTRING", 3, 3, |call| {
        Some(part(call.text(0)?, call.integer(1)?, call.integer(2)?))
    }),
    Function::new("REPLACE", 3, 3, replace),
    Function::new("REPLICATE", 2, 2, replicate),
    Function::new("REVERSE", 1, 1, |call| {
        Some(call.text(0)?.chars().rev().collect::<String>().into())
    }),
    Function::new("STRINGJOIN", 2, 2, join),
    Function::new("STRINGSPLIT", 2, 2, split),
];

fn concat(call: &Call<'_>) -> Option<Value> {
    let mut out = String::new();
    for at in 0..call.len() {
        let text = call.text(at)?;
        call.charge(text.len() / 32)?;
        out.push_str(text);
    }
    Some(out.into())
}

/// Tests two texts; the third argument ignores case.
fn test(call: &Call<'_>, test: fn(&str, &str) -> bool) -> Option<Value> {
    let (whole, part, ignore_case) = (call.text(0)?, call.text(1)?, call.flag(2)?);
    Some(Value::Bool(if ignore_case {
        test(&whole.to_lowercase(), &part.to_lowercase())
    } else {
        test(whole, part)
    }))
}

/// Evaluates `CONTAINS(…) AND …` or `CONTAINS(…) OR …`; undefined values propagate as there.
fn contains(call: &Call<'_>, all: bool, ignore_case: bool) -> Option<Value> {
    let fold = |text: &str| {
        if ignore_case {
            text.to_lowercase()
        } else {
            text.to_owned()
        }
    };
    let text = fold(call.text(0)?);
    let mut unknown = false;
    for at in 1..call.len() {
        call.charge(text.len() / 512)?;
        match call.text(at) {
            None => unknown = true,
            Some(part) if text.contains(&fold(part)) != all => return Some((!all).into()),
            Some(_) => {}
        }
    }
    (!unknown).then(|| all.into())
}

/// Returns the byte offset of a character, or the end.
fn byte_of(text: &str, position: usize) -> usize {
    text.char_indices()
        .nth(position)
        .map_or(text.len(), |(byte, _)| byte)
}

fn position_of(text: &str, byte: Option<usize>) -> Value {
    byte.map_or(Value::from(-1), |byte| text[..byte].chars().count().into())
}

fn index_of(call: &Call<'_>) -> Option<Value> {
    let (text, part) = (call.text(0)?, call.text(1)?);
    let start = call.optional(2, 0, Call::integer)?;
    let start = byte_of(text, usize::try_from(start).unwrap_or(0));
    let found = text[start..].find(part).map(|byte| start + byte);
    Some(position_of(text, found))
}

fn last_index_of(call: &Call<'_>) -> Option<Value> {
    let (text, part) = (call.text(0)?, call.text(1)?);
    let last = call.optional(2, i64::MAX, Call::integer)?;
    let Ok(last) = usize::try_from(last) else {
        return Some((-1).into());
    };
    // As in .NET, the match ends at or before the position where the search starts.
    let end = byte_of(text, last.saturating_add(1));
    Some(position_of(text, text[..end].rfind(part)))
}

fn trim(call: &Call<'_>, start: bool, end: bool) -> Option<Value> {
    let mut text = call.text(0)?;
    let signs = call.optional(1, None, |call, at| call.text(at).map(Some))?;
    let belongs = |c: char| signs.map_or(c.is_whitespace(), |signs: &str| signs.contains(c));
    if start {
        text = text.trim_start_matches(belongs);
    }
    if end {
        text = text.trim_end_matches(belongs);
    }
    Some(text.into())
}

/// Returns a substring; empty for a negative position or length.
fn part(text: &str, start: i64, length: i64) -> Value {
    let (Ok(start), Ok(length)) = (usize::try_from(start), usize::try_from(length)) else {
        return "".into();
    };
    let part: String = text.chars().skip(start).take(length).collect();
    part.into()
}

fn right(call: &Call<'_>) -> Option<Value> {
    let (text, count) = (call.text(0)?, call.integer(1)?);
    let count = usize::try_from(count).unwrap_or(0);
    let skipped = text.chars().count().saturating_sub(count);
    Some(text[byte_of(text, skipped)..].into())
}

fn replace(call: &Call<'_>) -> Option<Value> {
    let (text, from, to) = (call.text(0)?, call.text(1)?, call.text(2)?);
    if from.is_empty() {
        return None;
    }
    call.charge(text.matches(from).count().saturating_mul(to.len()) / 32)?;
    Some(text.replace(from, to).into())
}

fn replicate(call: &Call<'_>) -> Option<Value> {
    let (text, count) = (call.text(0)?, call.number(1)?);
    if count < 0.0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and too large ones are refused below"
    )]
    let count = count as usize;
    let length = text.chars().count().saturating_mul(count);
    (length <= MAX_REPLICATED).then(|| text.repeat(if text.is_empty() { 0 } else { count }).into())
}

fn join(call: &Call<'_>) -> Option<Value> {
    let (items, separator) = (call.items(0)?, call.text(1)?);
    let mut out = String::new();
    for (at, item) in items.iter().enumerate() {
        let item = item.as_str()?;
        call.charge((item.len() + separator.len()) / 32)?;
        if at > 0 {
            out.push_str(separator);
        }
        out.push_str(item);
    }
    Some(out.into())
}

fn split(call: &Call<'_>) -> Option<Value> {
    let (text, separator) = (call.text(0)?, call.text(1)?);
    if separator.is_empty() {
        return Some(vec![text].into());
    }
    call.charge(text.len())?;
    Some(text.split(separator).collect::<Vec<_>>().into())
}
