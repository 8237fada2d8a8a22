//! Tests of operators, of undefined values, and of the parser on any text.

mod functions;
mod queries;
#[cfg(feature = "spatial")]
mod spatial;

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::sql::eval::Scope;
use crate::sql::{Context, parse, rows};

/// Returns a context at 2026-03-04T05:06:07.1234567Z.
fn context() -> Context {
    let parameters = HashMap::from([("@p".to_owned(), json!("x")), ("@two".to_owned(), json!(2))]);
    Context::new(
        parameters,
        UNIX_EPOCH + Duration::from_nanos(1_772_600_767_123_456_700),
    )
}

/// Runs a query on one small document.
fn answer(text: &str) -> Result<Vec<Value>, String> {
    let context = context();
    let select = parse(text).map_err(|error| error.message)?;
    let document = json!({
        "id": "1", "n": 3, "x": "x", "nothing": null, "yes": true, "_rid": "36ZyAPW+uN8NAAAAAAAAAA==",
        "list": [1, "a", { "k": 1, "l": 2 }], "inner": { "a b": 7, "deep": { "er": [4, 5] } },
        "tags": [{ "name": "t1", "w": 1 }, { "name": "t2", "w": 5 }, { "name": "t2", "w": 9 }],
    });
    let scope = Scope::new(&select.alias, document, &context);
    let scopes = scope.matching(&select).map_err(|error| error.message)?;
    let scopes = rows::sort(&select, scopes).map_err(|error| error.message)?;
    rows::finish(&select, scopes, &context).map_err(|error| error.message)
}

/// Evaluates an expression on a small document; `None` is undefined.
fn value(expression: &str) -> Option<Value> {
    let mut rows = answer(&format!("SELECT VALUE {expression} FROM c")).expect(expression);
    assert!(rows.len() < 2, "{expression}");
    rows.pop()
}

#[test]
fn operators_have_the_precedence_of_the_reference() {
    for (expression, expected) in [
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("-c.n + 1", json!(-2)),
        ("NOT false AND false", json!(false)),
        ("NOT c.n = 4", json!(true)),
        ("true OR true AND false", json!(true)),
        ("c.n BETWEEN 1 AND 3 AND c.yes", json!(true)),
        ("c.n NOT IN (1, 2)", json!(true)),
        ("c.x = @p ? 'same' : 'other'", json!("same")),
        ("c.missing ?? c.n", json!(3)),
        ("'a' || 'b'", json!("ab")),
        ("c[\"inner\"][\"a b\"]", json!(7)),
        ("c.list[2].k", json!(1)),
        ("'it\\'s \\u00e9'", json!("it's é")),
        ("1 + 1 & 6 >> 1 | 8", json!(10)),
        ("7 ^ 2 & 3", json!(5)),
        ("'a' || 'b' = 'ab'", json!(true)),
        ("100 >>> 0", json!(100)),
        ("-1 >>> 0", json!(4_294_967_295_u32)),
        ("~5", json!(-6)),
        ("6442450944 | 0", json!(-2_147_483_648_i32)),
        ("c.n > 2 ? 'big' : 'small'", json!("big")),
        (".5 + 1.", json!(1.5)),
        ("1 -- a comment", json!(1)),
        ("c.x LIKE 'x%' AND c.n IN (3)", json!(true)),
        ("'50%' LIKE '50!%' ESCAPE '!'", json!(true)),
    ] {
        assert_eq!(value(expression), Some(expected), "{expression}");
    }
}

#[test]
fn undefined_propagates_and_null_is_a_value() {
    for expression in [
        "c.missing",
        "c.missing = 1",
        "c.missing != 1",
        "NOT c.missing",
        "c.missing AND true",
        "c.n < 'a'",
        "c.n + 'a'",
        "1 / 0",
        "c.list < c.list",
        "LOWER(c.n)",
    ] {
        assert_eq!(value(expression), None, "{expression}");
    }
    for (expression, expected) in [
        ("c.missing AND false", false),
        ("c.missing OR true", true),
        ("c.nothing = null", true),
        ("IS_DEFINED(c.nothing)", true),
        ("IS_DEFINED(c.missing)", false),
        ("IS_NULL(c.nothing)", true),
        ("1 = 1.0", true),
        ("0 = -0", true),
        ("c.n != 'a'", true),
        ("c.n BETWEEN 4 AND c.missing", false),
        ("c.n = '3'", false),
        ("ARRAY_CONTAINS(c.list, { \"k\": 1 })", false),
        ("ARRAY_CONTAINS(c.list, { \"k\": 1 }, true)", true),
        ("STARTSWITH(c.x, 'X', true)", true),
    ] {
        assert_eq!(value(expression), Some(json!(expected)), "{expression}");
    }
}

#[test]
fn invalid_queries_are_rejected() {
    for text in [
        "",
        "SELECT",
        "SELECT * FROM",
        "SELECT * FROM c WHERE",
        "SELECT * FROM c WHERE c.a =",
        "SELECT * FROM c WHERE (c.a",
        "SELECT * FROM c ORDER c.a",
        "SELECT 'open FROM c",
        "SELECT * FROM c; DROP",
    ] {
        assert_eq!(parse(text).expect_err(text).status, 400, "{text}");
    }
}

/// Parses, evaluates, prints and drops a query on a stack of the size of a worker thread.
fn survives(text: String) -> Result<(), u16> {
    let run = move || {
        let select = parse(&text).map_err(|error| error.status)?;
        let context = context();
        let scope = Scope::new(&select.alias, json!({ "a": 1 }), &context);
        scope.matching(&select).map_err(|error| error.status)?;
        let again = parse(&select.to_string()).map_err(|error| error.status);
        assert!(again.is_err() || again == Ok(select));
        Ok(())
    };
    std::thread::Builder::new()
        .stack_size(2 * 1024 * 1024)
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no panic")
}

#[test]
fn chains_over_the_limit_are_rejected() {
    for (part, more, long) in [
        (" + 1", "1", 1900),
        (".a", "c", 1900),
        ("[\"a\"]", "c", 1900),
        (" ?? 1", "c.b", 1900),
        (" = 1", "1", 1900),
    ] {
        let chain = |count| format!("SELECT * FROM c WHERE {more}{}", part.repeat(count));
        assert_eq!(survives(chain(long)), Ok(()), "{long} ×{part}");
        assert_eq!(survives(chain(20_000)), Err(400), "20,000 ×{part}");
    }
    for part in [" OR c.a = 2", " AND c.a = 1", " OR (c.a = 2 AND c.b = @b)"] {
        let chain = |count| format!("SELECT * FROM c WHERE c.a = 1{}", part.repeat(count));
        assert_eq!(survives(chain(15_000)), Ok(()), "15,000 ×{part}");
        assert_eq!(survives(chain(60_000)), Err(400), "60,000 ×{part}");
    }
    for (open, close, depth) in [
        ("(", ")", 90),
        ("[", "]", 90),
        ("EXISTS(SELECT VALUE ", ")", 45),
        ("ABS(", ")", 90),
        ("1 = 1 | 1 ^ 1 & 1 << 1 || 1 + 1 * (", ")", 10),
        ("true ? ", " : 1", 90),
    ] {
        let (open, close) = (open.repeat(depth), close.repeat(depth));
        let nested = format!("SELECT * FROM c WHERE {open}1{close}");
        assert_eq!(survives(nested), Ok(()), "{open}");
    }
    for open in [
        "(",
        "[",
        "NOT ",
        "-",
        "~",
        "{\"a\":",
        "EXISTS(SELECT VALUE ",
        "(SELECT VALUE 1 FROM ",
        "1 + ABS(",
        "1 = 1 | 1 ^ 1 & 1 << 1 || 1 + 1 * (",
        "1 ? ",
    ] {
        let text = format!("SELECT * FROM c WHERE {}", open.repeat(20_000));
        assert_eq!(survives(text), Err(400), "{open}");
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_rejected(text in "\\PC{0,80}") {
        if let Err(error) = parse(&text) {
            prop_assert_eq!(error.status, 400);
        }
    }

    #[test]
    fn any_sequence_of_tokens_is_parsed_or_rejected(
        words in prop::collection::vec(prop::sample::select(vec![
            "SELECT", "VALUE", "*", "FROM", "c", "WHERE", "c.a", "=", "<", "AND", "OR", "NOT", "IN", "BETWEEN",
            "LIKE", "(", ")", "[", "]", "{", "}", ",", ":", "?", "??", "'a'", "1", "1e3", "@p", "ORDER", "BY", "TOP",
            "DISTINCT", "GROUP", "JOIN", "EXISTS", "OFFSET", "LIMIT", "COUNT(1)", ".", "-", "AS", "\"", "é", "ARRAY(SELECT",
            "~", "<<", ">>>", "&", "^", "||", "ESCAPE", "LENGTH(",
        ]), 0..30)
    ) {
        for start in ["", "SELECT * FROM c WHERE "] {
            if let Err(error) = parse(&format!("{start}{}", words.join(" "))) {
                prop_assert_eq!(error.status, 400);
            }
        }
    }
}
