//! The entry points of the fuzz targets for the parsers of requests, and the replay of their
//! corpus.
//!
//! They panic if an invariant is violated, so they are for tests only.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::items::batch;
use crate::protocol::binary_json;
use crate::sql::eval::Scope;
use crate::sql::{Context, parse, rows};
use crate::store::Policy;
use crate::store::partitions::epk::Version;
use crate::time::Clock;
use crate::{plan, rules};

/// A document with values of every type.
fn document() -> Map<String, Value> {
    let document = json!({
        "id": "1", "n": 3, "f": -1.5, "t": "text", "z": null, "y": true, "a": [1, "x", { "k": [2] }],
        "o": { "p": { "q": "r" } }, "d": "2024-02-29T12:30:00.5Z", "_rid": "36ZyAPW+uN8NAAAAAAAAAA==",
    });
    document.as_object().cloned().unwrap_or_default()
}

/// Parses, prints, parses again, plans and evaluates a query.
pub fn fuzz_query(text: &str) {
    let Ok(select) = parse(text) else { return };
    let printed = select.to_string();
    // The printed text can nest too deep because of added parentheses. If it parses, the tree is
    // the same.
    if let Ok(again) = parse(&printed) {
        assert!(again == select, "{text} is printed as {printed}");
    }
    let parameters = HashMap::from([("@p".to_owned(), json!("x"))]);
    let policy = json!({ "includedPaths": [{ "path": "/*" }, { "path": "/n/?" }] });
    let policy = Policy::of(&policy);
    let indexed = plan::check_sort(&select, &policy).is_ok();
    if indexed {
        plan::Pushdown::of(&select, &parameters, &policy, false);
    }
    let key = ["/id".to_owned()];
    let query = plan::PlanInput {
        text,
        parameters: &parameters,
        key: &key,
        version: Version::V2,
        definition: &Value::Null,
    };
    // Planning may fail, but it must not panic.
    if let Ok(plan) = plan::QueryPlan::of(query) {
        plan.to_json();
    }
    let context = Context::new(parameters, Clock::machine().now());
    let scope = Scope::new(&select.alias, document().into(), &context);
    let rows = scope
        .matching(&select)
        .and_then(|scopes| rows::sort(&select, scopes))
        .and_then(|scopes| rows::finish(&select, scopes, &context));
    if let Err(error) = rows {
        assert_eq!(error.status, 400, "{text}: {error}");
    }
}

/// Decodes a batch, and applies its patches to a document.
pub fn fuzz_batch(body: &[u8]) {
    if let Err(error) = batch::decode(body, &document()) {
        assert!((400..500).contains(&error.status), "{error}");
    }
}

/// Reads binary JSON without its first byte. The size of the value is bounded by the length of the
/// body, except for references to strings.
pub fn fuzz_binary_json(body: &[u8]) {
    let body = [&[0x80], body].concat();
    match binary_json::read::<Value>(&body) {
        Ok(value) => {
            let length = value.to_string().len();
            let texts = binary_json::MAX_TEXT * 6;
            assert!(length <= texts + 64 * body.len(), "{length} bytes");
        }
        Err(error) => assert_eq!(error.status, 400),
    }
}

/// Reads the header of a partition key, and hashes the key.
pub fn fuzz_partition_key(text: &str) {
    match rules::partition_key_header(text) {
        Ok(key) => {
            for version in [Version::V1, Version::V2] {
                let place = version.effective_partition_key(&key);
                assert!(
                    place.bytes().all(|byte| byte.is_ascii_hexdigit()),
                    "{text} has the hash {place}"
                );
            }
        }
        Err(error) => assert_eq!(error.status, 400, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Runs every input of a target's corpus on a stack of the size of a worker thread.
    fn replay(target: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fuzz/corpus")
            .join(target);
        let inputs: Vec<Vec<u8>> = std::fs::read_dir(&folder)
            .expect("a corpus")
            .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("an input"))
            .collect();
        assert!(!inputs.is_empty(), "{}", folder.display());
        let replay = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
        let replay = replay.spawn(move || inputs.iter().for_each(|input| run(input)));
        replay
            .expect("a thread")
            .join()
            .expect("no input causes a panic");
    }

    fn text(input: &[u8]) -> &str {
        std::str::from_utf8(input).unwrap_or_default()
    }

    #[test]
    fn no_query_of_the_corpus_panics() {
        replay("query", |input| super::fuzz_query(text(input)));
    }

    #[test]
    fn no_batch_of_the_corpus_panics() {
        replay("batch", super::fuzz_batch);
    }

    #[test]
    fn no_binary_json_of_the_corpus_panics() {
        replay("binary_json", super::fuzz_binary_json);
    }

    #[test]
    fn no_partition_key_of_the_corpus_panics() {
        replay("partition_key", |input| {
            super::fuzz_partition_key(text(input));
        });
    }
}
