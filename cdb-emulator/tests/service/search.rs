//! Tests of vector and full-text search: the results equal those of an exhaustive search.

use cdb_emulator::Emulator;
use serde_json::{Value, json};

use crate::account::{Account, Headers};

const IN_P: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];
const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";
const WORDS: [&str; 8] = [
    "red", "bike", "car", "house", "hill", "green", "old", "fast",
];

/// Returns numbers between 0 and `below` that look random.
fn numbers(seed: u64, below: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    })
}

fn vector(seed: u64) -> Vec<f64> {
    let numbers = numbers(seed, 1000).take(4);
    numbers
        .map(|number| f64::from(u32::try_from(number).expect("it is small")) - 500.0)
        .collect()
}

fn text(seed: u64) -> String {
    let length = 3 + usize::try_from(seed % 7).expect("it is small");
    let words = numbers(seed + 1000, 8).take(length);
    let words: Vec<&str> = words
        .map(|at| WORDS[usize::try_from(at).expect("it is small")])
        .collect();
    words.join(" ")
}

/// Creates sixty documents with vectors and texts.
async fn filled(distance_function: &str) -> Account {
    let definition = json!({
        "vectorEmbeddingPolicy": { "vectorEmbeddings": [
            { "path": "/v", "dataType": "float32", "distanceFunction": distance_function, "dimensions": 4 },
        ] },
        "fullTextPolicy": { "defaultLanguage": "en-US", "fullTextPaths": [{ "path": "/text", "language": "en-US" }] },
    });
    let account = Account::with(Emulator::start().await.expect("it starts"), definition).await;
    for n in 0..60 {
        let document =
            json!({ "id": n.to_string(), "pk": "p", "n": n, "v": vector(n), "text": text(n) });
        account.create(&document).await.is(201);
    }
    let without = json!({ "id": "none", "pk": "p", "n": 60 });
    account.create(&without).await.is(201);
    account
}

async fn rows(account: &Account, sql: &str, parameters: Value) -> Vec<Value> {
    let answer = account.query(IN_P, sql, parameters).await;
    assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
    answer.documents()
}

fn distance(function: &str, a: &[f64], b: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    match function {
        "cosine" => product(a, b) / (product(a, a).sqrt() * product(b, b).sqrt()),
        "dotproduct" => product(a, b),
        _ => a
            .iter()
            .zip(b)
            .map(|(a, b)| (a - b) * (a - b))
            .sum::<f64>()
            .sqrt(),
    }
}

#[tokio::test]
async fn the_nearest_vectors_are_those_of_an_exhaustive_search() {
    for function in ["cosine", "dotproduct", "euclidean"] {
        let account = filled(function).await;
        let wanted = vector(777);
        let mut expected: Vec<(f64, u64)> = (0..60)
            .map(|n| (distance(function, &vector(n), &wanted), n))
            .collect();
        expected.sort_by(|a, b| match function {
            "euclidean" => a.0.total_cmp(&b.0),
            _ => b.0.total_cmp(&a.0),
        });
        let expected: Vec<u64> = expected.into_iter().take(10).map(|(_, n)| n).collect();
        let sql = "SELECT TOP 10 VALUE c.n FROM c ORDER BY VectorDistance(c.v, @v)";
        let found = rows(&account, sql, json!([{ "name": "@v", "value": wanted }])).await;
        assert_eq!(json!(found), json!(expected), "{function}");
        let all = "SELECT VALUE c.n FROM c ORDER BY VectorDistance(c.v, @v)";
        let found = rows(&account, all, json!([{ "name": "@v", "value": wanted }])).await;
        assert_eq!(found.len(), 60, "a document without a vector is left out");
    }
}

#[tokio::test]
async fn a_sort_by_vectors_is_planned_with_its_direction() {
    for (function, direction) in [("cosine", "Descending"), ("euclidean", "Ascending")] {
        let account = filled(function).await;
        let headers: Headers<'_> = &[
            ("x-ms-cosmos-is-query-plan-request", "True"),
            (
                "x-ms-cosmos-supported-query-features",
                "NonStreamingOrderBy,OrderBy,Top",
            ),
        ];
        let sql = "SELECT TOP 2 c.id FROM c ORDER BY VectorDistance(c.v, [1, 0, 0, 0])";
        let plan = account.query(headers, sql, json!([])).await;
        let info = &plan.body["queryInfo"];
        assert_eq!(info["orderBy"], json!([direction]));
        assert_eq!(info["hasNonStreamingOrderBy"], true);
        let rewritten = info["rewrittenQuery"].as_str().expect("a query");
        assert!(rewritten.contains(FILTER), "{rewritten}");
        let rewritten = rewritten.replace(FILTER, "true");
        assert_eq!(rows(&account, &rewritten, json!([])).await.len(), 2);
    }
}

fn has(text: &str, phrase: &str) -> bool {
    format!(" {text} ").contains(&format!(" {phrase} "))
}

#[tokio::test]
async fn full_text_conditions_find_words_and_phrases() {
    let account = filled("cosine").await;
    for (condition, expected) in [
        (
            "FullTextContains(c.text, 'Red')",
            (0..60)
                .filter(|n| has(&text(*n), "red"))
                .collect::<Vec<u64>>(),
        ),
        (
            "FullTextContains(c.text, 'red bike')",
            (0..60).filter(|n| has(&text(*n), "red bike")).collect(),
        ),
        (
            "FullTextContainsAll(c.text, 'red', 'car')",
            (0..60)
                .filter(|n| has(&text(*n), "red") && has(&text(*n), "car"))
                .collect(),
        ),
        (
            "FullTextContainsAny(c.text, 'hill', 'old')",
            (0..60)
                .filter(|n| has(&text(*n), "hill") || has(&text(*n), "old"))
                .collect(),
        ),
    ] {
        let sql = format!("SELECT VALUE c.n FROM c WHERE {condition} ORDER BY c.n");
        assert_eq!(
            json!(rows(&account, &sql, json!([])).await),
            json!(expected),
            "{condition}"
        );
    }
}

/// The BM25 score of text `n` for some words.
fn score(n: u64, wanted: &[&str]) -> f64 {
    let count = |text: &str, word: &str| text.split(' ').filter(|found| *found == word).count();
    let real = |number: usize| f64::from(u32::try_from(number).expect("it is small"));
    let texts: Vec<String> = (0..60).map(text).collect();
    let words: usize = texts.iter().map(|text| text.split(' ').count()).sum();
    // The document without a text counts too.
    let average = real(words) / 61.0;
    let own = text(n);
    let length = 0.25 + 0.75 * real(own.split(' ').count()) / average;
    let part = |word: &&str| {
        let hits = real(texts.iter().filter(|text| count(text, word) > 0).count());
        let found = real(count(&own, word));
        (1.0 + (61.0 - hits + 0.5) / (hits + 0.5)).ln() * found * 2.2 / (found + 1.2 * length)
    };
    wanted.iter().map(part).sum()
}

/// Replaces the placeholders of the first component, as clients do.
fn completed(query: &str, statistics: &Value) -> String {
    let place = |name: &str| format!("{{documentdb-formattablehybridsearchquery-{name}}}");
    let of_text = &statistics["fullTextStatistics"][0];
    [
        (FILTER.to_owned(), "true".to_owned()),
        (
            place("totaldocumentcount"),
            statistics["documentCount"].to_string(),
        ),
        (
            place("totalwordcount-0"),
            of_text["totalWordCount"].to_string(),
        ),
        (place("hitcountsarray-0"), of_text["hitCounts"].to_string()),
    ]
    .iter()
    .fold(query.to_owned(), |query, (place, value)| {
        query.replace(place, value)
    })
}

#[tokio::test]
async fn a_ranked_query_is_planned_with_statistics_and_components() {
    let account = filled("cosine").await;
    let sql = "SELECT TOP 5 VALUE c.n FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'red', 'bike'), VectorDistance(c.v, [1, 0, 0, 0]), [2, 1])";
    let refused = account.query(IN_P, sql, json!([])).await;
    refused.has(400, "x-ms-substatus", "1004");
    let plan = refused.body["additionalErrorInfo"]
        .as_str()
        .expect("a plan");
    let plan: Value = serde_json::from_str(plan).expect("JSON");
    let hybrid = &plan["hybridSearchQueryInfo"];
    assert_eq!(
        (&hybrid["take"], &hybrid["componentWeights"]),
        (&json!(5), &json!([2, 1]))
    );
    let statistics = hybrid["globalStatisticsQuery"].as_str().expect("a query");
    let statistics = rows(&account, statistics, json!([])).await.remove(0);
    assert_eq!(statistics["documentCount"], 61);
    let query = hybrid["componentQueryInfos"][0]["rewrittenQuery"]
        .as_str()
        .expect("a query");
    // Limits and texts: .NET client, `QueryPlanBaselineTests.Top.xml`.
    for expected in ["SELECT TOP 120 c._rid", "?? (-1)", FILTER] {
        assert!(query.contains(expected), "{query}");
    }
    let query = completed(query, &statistics);
    let found = rows(&account, &query, json!([])).await;
    assert_eq!(found.len(), 61);
    let scores: Vec<f64> = found
        .iter()
        .map(|row| {
            row["payload"]["componentScores"][0]
                .as_f64()
                .expect("a number")
        })
        .collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    for (row, found) in found.iter().zip(scores) {
        let n = row["payload"]["payload"].as_u64().expect("a number");
        let expected = if n == 60 {
            0.0
        } else {
            score(n, &["red", "bike"])
        };
        assert!(
            (found - expected).abs() < 1e-9,
            "{n}: {found}, expected {expected}"
        );
    }
}

#[tokio::test]
async fn a_rank_that_cannot_be_computed_is_refused() {
    let account = filled("cosine").await;
    for sql in [
        "SELECT TOP 1 * FROM c ORDER BY RANK LOWER(c.text)",
        "SELECT TOP 1 * FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'a'), VectorDistance(c.v, [1]), [1])",
        "SELECT FullTextScore(c.text, 'red') FROM c",
    ] {
        let refused = account.query(IN_P, sql, json!([])).await;
        assert_eq!(refused.status, 400, "{sql}");
        assert_eq!(
            refused.header("x-ms-substatus"),
            "",
            "{sql}: {}",
            refused.body
        );
    }
}
