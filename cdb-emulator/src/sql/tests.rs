//! The language by itself: what binds how, what undefined does, and that no text brings the parser down.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::ast::Projection;
use super::eval::Scope;
use super::parse;

/// The value of an expression over a small document; `None` is undefined.
fn value(expression: &str) -> Option<Value> {
    let select = parse(&format!("SELECT VALUE {expression} FROM c")).expect(expression);
    let parameters = HashMap::from([("@p".to_owned(), json!("x"))]);
    let document = json!({
        "id": "1", "n": 3, "x": "x", "nothing": null, "yes": true,
        "list": [1, "a", { "k": 1, "l": 2 }], "inner": { "a b": 7 },
    });
    let scope = Scope::new(&select.alias, document, &parameters);
    let Projection::Value(_) = select.projection else {
        panic!("{expression} is no single value");
    };
    scope.project(&select.projection).expect(expression)
}

#[test]
fn operators_bind_as_in_the_reference() {
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
    ] {
        assert_eq!(value(expression), Some(expected), "{expression}");
    }
}

#[test]
fn undefined_spreads_and_null_is_a_value() {
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
        ("c.n = '3'", false),
        ("ARRAY_CONTAINS(c.list, { \"k\": 1 })", false),
        ("ARRAY_CONTAINS(c.list, { \"k\": 1 }, true)", true),
        ("STARTSWITH(c.x, 'X', true)", true),
    ] {
        assert_eq!(value(expression), Some(json!(expected)), "{expression}");
    }
}

#[test]
fn broken_queries_are_refused() {
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

/// Parses, evaluates and drops on a stack as small as a worker's.
fn survives(text: String) -> Result<(), u16> {
    let run = move || {
        let select = parse(&text).map_err(|error| error.status)?;
        let parameters = HashMap::new();
        let scope = Scope::new(&select.alias, json!({ "a": 1 }), &parameters);
        scope
            .holds(select.filter.as_ref())
            .map_err(|error| error.status)?;
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
fn long_chains_are_answered_and_endless_ones_refused() {
    for (part, more, long) in [
        (" OR c.a = 2", "c.a = 1", 600),
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
    let nested = format!(
        "SELECT * FROM c WHERE {}1{}",
        "(".repeat(90),
        ")".repeat(90)
    );
    assert_eq!(survives(nested), Ok(()));
    for open in ["(", "[", "NOT ", "-", "{\"a\":", "EXISTS(SELECT VALUE "] {
        let text = format!("SELECT * FROM c WHERE {}", open.repeat(20_000));
        assert_eq!(survives(text), Err(400), "{open}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        if let Err(error) = parse(&text) {
            prop_assert_eq!(error.status, 400);
        }
    }

    #[test]
    fn any_mixture_of_its_words_is_read_or_refused(
        words in prop::collection::vec(prop::sample::select(vec![
            "SELECT", "VALUE", "*", "FROM", "c", "WHERE", "c.a", "=", "<", "AND", "OR", "NOT", "IN", "BETWEEN",
            "LIKE", "(", ")", "[", "]", "{", "}", ",", ":", "?", "??", "'a'", "1", "1e3", "@p", "ORDER", "BY", "TOP",
            "DISTINCT", "GROUP", "JOIN", "EXISTS", "OFFSET", "LIMIT", "COUNT(1)", ".", "-", "AS", "\"", "é",
        ]), 0..30)
    ) {
        for start in ["", "SELECT * FROM c WHERE "] {
            if let Err(error) = parse(&format!("{start}{}", words.join(" "))) {
                prop_assert_eq!(error.status, 400);
            }
        }
    }
}
