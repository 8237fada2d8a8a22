//! The tokens of a Rust source, as far as the module system needs them.

/// Splits a source into words, literals, `::`, arrows and single signs, without comments.
pub(super) fn tokens(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let length = if let Some(length) = skipped(rest) {
            length
        } else {
            let length = token(rest);
            found.push(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    found
}

/// The length of the white space or comment at the start of a text, or `None` before a token.
fn skipped(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if first.is_whitespace() {
        return Some(first.len_utf8());
    }
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| block_comment(text))
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &text[at..];
        if rest.is_empty() {
            return at;
        } else if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(0, char::len_utf8);
        }
    }
}

/// The length of a literal from its first quote to its last.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if sign == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut inner = text.strip_prefix('\'')?.chars();
    let first = inner.next()?;
    (first == '\\' || inner.next() == Some('\'')).then(|| quoted(text, '\''))
}

fn raw_string(text: &str) -> Option<usize> {
    let after_r = text.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let inner = after_r.trim_start_matches('#');
    let hashes = &after_r[..after_r.len() - inner.len()];
    let body = inner.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + length)
}

/// The length of the token at the start of a text.
fn token(text: &str) -> usize {
    if text.starts_with('"') {
        return quoted(text, '"');
    }
    if let Some(length) = character(text).or_else(|| raw_string(text)) {
        return length;
    }
    if ["::", "->", "=>"].iter().any(|sign| text.starts_with(sign)) {
        return 2;
    }
    match text.find(|sign: char| !is_word(sign)) {
        Some(0) => text.chars().next().map_or(0, char::len_utf8),
        Some(end) => end,
        None => text.len(),
    }
}

fn is_word(sign: char) -> bool {
    sign == '_' || sign.is_alphanumeric()
}

#[test]
fn comments_are_left_out_and_literals_are_one_token() {
    let source = r##"
        //! crate::line
        /* crate::block /* nested */ still */
        let text = "// \" use"; let raw = br#"" use "#;
        let (quote, escaped) = ('"', '\''); fn f<'a>(x: &'a str) -> r#T {}
    "##;
    let expected = r##"
        let text = "// \" use" ; let raw = br#"" use "# ;
        let ( quote , escaped ) = ( '"' , '\'' ) ; fn f < ' a > ( x : & ' a str ) -> r # T { }
    "##;
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert_eq!(tokens(source).join(" "), expected.join(" "));
}
