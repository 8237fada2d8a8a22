//! Tests of computed properties, vectors and full texts in the model: definition, policy, SQL.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use cdb_model::policy::{IndexingPolicy, PolicyDifference};
use cdb_model::query::Explain as _;
use cdb_model::query::search::{Rank, SearchStatement};
use cdb_model::query::statement::{RowForm, Scope, Statement};
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "note", id = "{number}")]
#[document(computed(title_lower: String = "LOWER({main_title})", index))]
#[document(computed(area: f64 = "{size.width} * {size.height}"))]
#[document(composite(BY_TITLE = r#type, title_lower desc))]
struct Note {
    #[document(partition_key)]
    author: String,
    number: u64,
    main_title: String,
    size: Size,
    #[document(full_text)]
    body: Option<String>,
    #[document(full_text = "de-DE", index)]
    summary: String,
    #[document(vector(dimensions = 3))]
    meaning: Vec<f32>,
    #[document(vector(dimensions = 2, distance = euclidean, index = flat))]
    place: Option<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
struct Size {
    width: f64,
    height: f64,
}

#[derive(Container)]
enum Notes {
    Note(Note),
}

#[test]
fn the_definition_has_computed_properties_vectors_and_texts() {
    let definition = serde_json::to_value(Notes::definition()).unwrap();
    assert_eq!(
        definition["computedProperties"],
        json!([
            { "name": "area", "query": r#"SELECT VALUE c["size"]["width"] * c["size"]["height"] FROM c"# },
            { "name": "titleLower", "query": r#"SELECT VALUE LOWER(c["mainTitle"]) FROM c"# },
        ])
    );
    assert_eq!(
        definition["vectorEmbeddingPolicy"]["vectorEmbeddings"],
        json!([
            { "path": "/meaning", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 3 },
            { "path": "/place", "dataType": "uint8", "distanceFunction": "euclidean", "dimensions": 2 },
        ])
    );
    assert_eq!(
        definition["fullTextPolicy"],
        json!({ "defaultLanguage": "en-US", "fullTextPaths": [
            { "path": "/body", "language": "en-US" }, { "path": "/summary", "language": "de-DE" },
        ] })
    );
    let policy = &definition["indexingPolicy"];
    assert_eq!(
        policy["includedPaths"],
        json!([{ "path": "/summary/?" }, { "path": "/titleLower/?" }, { "path": "/type/?" }])
    );
    assert_eq!(
        policy["compositeIndexes"],
        json!([[
            { "path": "/type", "order": "ascending" }, { "path": "/titleLower", "order": "descending" },
        ]])
    );
    assert_eq!(
        policy["vectorIndexes"],
        json!([{ "path": "/meaning", "type": "quantizedFlat" }, { "path": "/place", "type": "flat" }])
    );
    assert_eq!(
        policy["fullTextIndexes"],
        json!([{ "path": "/body" }, { "path": "/summary" }])
    );
}

#[test]
fn a_definition_without_search_has_none_of_its_members() {
    #[derive(Document, Serialize, Deserialize)]
    #[document(type = "plain", id = "{id_part}")]
    struct Plain {
        #[document(partition_key)]
        id_part: String,
    }
    #[derive(Container)]
    enum Plains {
        Plain(Plain),
    }
    let definition = serde_json::to_value(Plains::definition()).unwrap();
    let mut members: Vec<_> = definition.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["indexingPolicy", "partitionKey"]);
    assert_eq!(definition["indexingPolicy"].get("vectorIndexes"), None);
}

#[test]
fn missing_search_indexes_are_a_difference_and_superfluous_ones_are_not() {
    let model = IndexingPolicy::of::<Notes>();
    let mut live = model.clone();
    live.vector_indexes.remove(0);
    live.full_text_indexes.remove(1);
    let differences = model.differences_of(&live);
    assert_eq!(
        differences,
        [
            PolicyDifference::MissingSearchIndex("vector index of `/meaning`".to_owned()),
            PolicyDifference::MissingSearchIndex("full-text index of `/summary`".to_owned()),
        ]
    );
    assert!(differences.iter().all(PolicyDifference::breaks_queries));
    assert_eq!(live.differences_of(&model), []);
}

#[test]
fn what_a_later_version_of_the_service_adds_can_be_read() {
    let mut definition = serde_json::to_value(Notes::definition()).unwrap();
    definition["vectorEmbeddingPolicy"]["vectorEmbeddings"][0]["dataType"] = "float8".into();
    definition["vectorEmbeddingPolicy"]["vectorEmbeddings"][0]["distanceFunction"] = "L1".into();
    definition["indexingPolicy"]["vectorIndexes"] = json!([{ "path": "/meaning", "type": "later", "quantizationByteSize": 8 }, { "path": "/place" }]);
    let live: cdb_model::container::ContainerDefinition =
        serde_json::from_value(definition).unwrap();
    assert_eq!(
        IndexingPolicy::of::<Notes>().differences_of(&live.indexing_policy),
        []
    );
}

fn planned(statement: SearchStatement) -> Statement {
    match statement {
        SearchStatement::Planned(statement) => statement,
        SearchStatement::ByVector(statement) => panic!("{statement:?}"),
    }
}

fn search(rank: Rank<Note>) -> SearchStatement {
    let query = Query::in_partition("ada").filter(Note::SUMMARY.starts_with("a"));
    query.search(rank, 5).statement::<Notes>().unwrap()
}

#[test]
fn a_search_by_one_vector_is_a_query_with_scores_as_keys() {
    let SearchStatement::ByVector(statement) = search(Note::PLACE.nearest(vec![1, 2])) else {
        panic!("it is planned");
    };
    assert_eq!(
        statement.sql,
        concat!(
            r#"SELECT TOP 5 VALUE {"value": {"document": c, "score": VectorDistance(c["place"], @p0)}, "#,
            r#""keys": [{"item": VectorDistance(c["place"], @p0)}]} FROM c "#,
            r#"WHERE (c["type"] = @p1 AND STARTSWITH(c["summary"], @p2)) "#,
            r#"ORDER BY VectorDistance(c["place"], @p0)"#
        )
    );
    assert_eq!(statement.parameters[0].value, json!([1, 2]));
    assert_eq!(statement.form, RowForm::ValueWithKeys);
    assert_eq!(statement.top, Some(5));
    let Scope::Partition(_) = statement.scope else {
        panic!("it reads all partitions");
    };
}

#[test]
fn words_are_literals_that_cannot_leave_their_quotation_marks() {
    let statement = planned(search(Note::BODY.ranked(["it's", "\"); --"])));
    let expected = r#" ORDER BY RANK FullTextScore(c["body"], "it's", "\"); --")"#;
    assert!(
        statement.sql.starts_with("SELECT TOP 5 * FROM c WHERE "),
        "{}",
        statement.sql
    );
    assert!(statement.sql.ends_with(expected), "{}", statement.sql);
}

#[test]
fn several_scores_are_fused_with_their_weights() {
    let meaning = vec![1.0, 0.5, 0.0];
    let both = Note::MEANING
        .nearest(&meaning)
        .and(Note::BODY.ranked(["a"]));
    let sql = planned(search(both.clone())).sql;
    let expected = r#"RRF(VectorDistance(c["meaning"], @p2), FullTextScore(c["body"], "a"))"#;
    assert!(sql.ends_with(expected), "{sql}");
    let sql = planned(search(both.weighted(0.5).and(Note::SUMMARY.ranked(["b"])))).sql;
    assert!(sql.ends_with(", [0.5, 0.5, 1])"), "{sql}");
}

#[test]
fn conditions_on_words_are_served_by_the_full_text_index() {
    let query = Query::<Note>::across_partitions().filter(
        Note::BODY.contains_all_words(["red", "bike"]) & Note::SUMMARY.contains_any_word(["rot"]),
    );
    let mut policy = IndexingPolicy::of::<Notes>();
    let explanation = query.explain(&policy);
    assert_eq!(explanation.full_text_indexes, ["/body", "/summary"]);
    assert_eq!(explanation.leftover, [""; 0]);
    policy.full_text_indexes.remove(0);
    let explanation = query.explain(&policy);
    assert_eq!(
        explanation.leftover,
        [r#"FullTextContainsAll(c["body"], "red", "bike")"#]
    );
}

#[test]
fn a_search_without_a_fitting_vector_or_words_is_refused() {
    for (rank, reason) in [
        (
            Note::MEANING.nearest(vec![1.0]),
            "the value for `/meaning` is invalid: it has 1 numbers, the field is declared with 3",
        ),
        (
            Note::MEANING.nearest(vec![1.0, f32::NAN, 2.0]),
            "the value for `/meaning` is invalid: it cannot be serialized as JSON: NaN and infinity cannot be expressed as JSON",
        ),
        (
            Note::BODY.ranked(["a"]).weighted(f64::NAN),
            "the value for `/body` is invalid: its weight is not finite",
        ),
        (
            Note::BODY.ranked([""; 0]),
            "the value for `/body` is invalid: there are no words to search for",
        ),
    ] {
        let query = Query::<Note>::across_partitions().search(rank, 1);
        assert_eq!(query.statement::<Notes>().unwrap_err().to_string(), reason);
    }
}

#[test]
fn a_sort_by_a_computed_property_returns_its_keys() {
    use cdb_model::query::statement::Fetch;
    let query = Query::<Note>::across_partitions().order_by(Note::TITLE_LOWER.asc());
    let statement = Fetch::<Notes>::statement(&query).unwrap();
    assert_eq!(statement.form, RowForm::ValueWithKeys);
    assert_eq!(
        statement.sql,
        concat!(
            r#"SELECT VALUE {"value": c, "keys": [{"item": c["titleLower"]}]} FROM c "#,
            r#"WHERE c["type"] = @p0 ORDER BY c["titleLower"] ASC"#
        )
    );
    let values = Query::<Note>::across_partitions().values(Note::AREA);
    let sql = Fetch::<Notes>::statement(&values).unwrap().sql;
    assert!(
        sql.starts_with(r#"SELECT VALUE {"value": c["area"], "keys": []}"#),
        "{sql}"
    );
}
