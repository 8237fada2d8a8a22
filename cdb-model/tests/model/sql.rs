//! `sql!` and `RawSql`: the statements that they write, and how they read rows.

use cdb_model::query::statement::Fetch;
use cdb_model::query::{Explain as _, Sql};
use cdb_model::{Container, Document, Scalar, Timestamp, sql};
use expect_test::{Expect, expect};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "order:{number}")]
#[document(composite(BY_TOTAL = state, total_cents desc))]
struct Order {
    #[document(partition_key)]
    customer_id: String,
    number: u64,
    #[document(index)]
    state: String,
    #[document(index)]
    total_cents: u64,
    #[document(index)]
    tags: Vec<String>,
    #[document(soft_delete)]
    deleted_at: Option<Timestamp>,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "profile", id = "profile")]
struct Profile {
    #[document(partition_key)]
    #[serde(rename = "customerId")]
    customer: String,
    #[document(index)]
    city: String,
    #[document(index)]
    kind: Kind,
    #[document(index)]
    age: Option<u64>,
}

#[derive(Scalar, Serialize, Deserialize)]
enum Kind {
    Person,
    Company,
}

#[derive(Container)]
#[container(partition_key = "/customerId")]
enum Shop {
    Order(Order),
    Profile(Profile),
}

fn written(query: &impl Fetch<Shop>, expected: &Expect) {
    let statement = query.statement().expect("a statement");
    let parameters = statement.parameters.iter();
    let parameters =
        parameters.map(|parameter| format!("\n{} = {}", parameter.name, parameter.value));
    let text = statement.sql + &parameters.collect::<String>();
    expected.assert_eq(&text);
}

fn sql_of<Row>(query: Sql<Order, Row>) -> Sql<Order, Row> {
    query.with_deleted()
}

#[test]
fn the_type_after_from_filters_the_documents() {
    let state = "open";
    let orders = sql!("SELECT * FROM {Order} WHERE {Order::STATE} = {state}");
    written(
        &orders,
        &expect![[r#"
            SELECT * FROM c WHERE (c["type"] = @p0 AND c["state"] = @p1 AND (IS_NULL(c["deletedAt"]) OR NOT (IS_DEFINED(c["deletedAt"]))))
            @p0 = "order"
            @p1 = "open""#]],
    );
    written(
        &orders.with_deleted(),
        &expect![[r#"
            SELECT * FROM c WHERE (c["type"] = @p0 AND c["state"] = @p1)
            @p0 = "order"
            @p1 = "open""#]],
    );
    let city = String::from("Bern");
    let all = sql!("SELECT VALUE c.id FROM {Shop} WHERE {Order::STATE} = 'open' OR {Profile::CITY} = {city}" => String);
    written(
        &all.with_deleted(),
        &expect![[r#"
        SELECT VALUE {"value": c.id, "keys": []} FROM c WHERE (c["state"] = 'open' OR c["city"] = @p0)
        @p0 = "Bern""#]],
    );
}

#[test]
fn columns_are_named_by_alias_path_or_property() {
    let columns = sql!(
        "SELECT c.customerId, {Order::NUMBER}, {Order::TOTAL_CENTS} / 100 AS total, {{\"a\": [{Order::STATE}]}} AS nested
         FROM {Order} ORDER BY {Order::TOTAL_CENTS} DESC" => Value
    );
    written(
        &sql_of(columns),
        &expect![[r#"
        SELECT VALUE {"value": {"customerId": c.customerId, "number": c["number"], "total": c["totalCents"] / 100, "nested": {"a": [c["state"]]}}, "keys": [{"item": c["totalCents"]}]} FROM c WHERE c["type"] = @p0 ORDER BY c["totalCents"] DESC
        @p0 = "order""#]],
    );
    let sorted = sql!("SELECT TOP 3 * FROM {Order} c ORDER BY {Order::BY_TOTAL}");
    written(
        &sql_of(sorted),
        &expect![[r#"
            SELECT TOP 3 * FROM c WHERE c["type"] = @p0 ORDER BY c["state"] ASC, c["totalCents"] DESC
            @p0 = "order""#]],
    );
}

#[test]
fn or_binds_less_than_and() {
    let query = sql!(
        "SELECT * FROM {Order} WHERE {Order::STATE} = 'a' OR {Order::STATE} = 'b' AND {Order::TOTAL_CENTS} > 5"
    );
    written(
        &sql_of(query),
        &expect![[r#"
        SELECT * FROM c WHERE (c["type"] = @p0 AND (c["state"] = 'a' OR c["state"] = 'b' AND c["totalCents"] > 5))
        @p0 = "order""#]],
    );
    let query = sql!(
        "SELECT * FROM {Order} WHERE {Order::TOTAL_CENTS} > 5 AND {Order::STATE} = 'a' OR {Order::STATE} = 'b'"
    );
    written(
        &sql_of(query),
        &expect![[r#"
        SELECT * FROM c WHERE (c["type"] = @p0 AND (c["totalCents"] > 5 AND c["state"] = 'a' OR c["state"] = 'b'))
        @p0 = "order""#]],
    );
}

#[test]
fn variants_and_values_in_parentheses_have_the_type_of_their_path() {
    let age = 30_u64;
    let query = sql!(
        "SELECT VALUE {Profile::CITY} FROM {Profile}
         WHERE {Profile::KIND} = {Kind::Company} AND {Profile::AGE} >= ({age}) AND {Profile::KIND} IN ({Kind::Person})" => String
    );
    written(
        &query,
        &expect![[r#"
        SELECT VALUE {"value": c["city"], "keys": []} FROM c WHERE (c["type"] = @p0 AND c["kind"] = @p1 AND c["age"] >= (@p2) AND c["kind"] IN (@p3))
        @p0 = "profile"
        @p1 = "Company"
        @p2 = 30
        @p3 = "Person""#]],
    );
}

#[test]
fn sums_and_extremes_ignore_nulls() {
    let query = sql!("SELECT MIN({Profile::AGE}) AS youngest, SUM({Profile::AGE}) AS years FROM {Profile}" => Value);
    written(
        &query,
        &expect![[r#"
        SELECT [{"item": MIN(IS_NULL(c["age"]) ? undefined : c["age"])}, {"item": SUM(IS_NULL(c["age"]) ? undefined : c["age"])}] AS items FROM c WHERE c["type"] = @p0
        @p0 = "profile""#]],
    );
}

#[test]
fn conditions_that_no_index_serves_are_explained_so() {
    let policy = Shop::definition().indexing_policy;
    let query = sql!(
        "SELECT * FROM {Order} WHERE LOWER({Order::STATE}) = 'open' AND {Order::TOTAL_CENTS} % 2 = 0"
    );
    assert_eq!(sql_of(query).explain(&policy).leftover.len(), 2);
}

#[test]
fn values_are_parameters_wherever_they_are_compared() {
    let (low, high, tag) = (1_u64, 9_u64, "gift");
    let query = sql!(
        "SELECT VALUE t FROM {Order} JOIN t IN {Order::TAGS}
         WHERE {Order::TOTAL_CENTS} BETWEEN {low} AND {high} AND {high} > {Order::TOTAL_CENTS}
         AND {Order::STATE} NOT IN ({\"a\"}, 'b') AND ARRAY_CONTAINS({Order::TAGS}, {tag}) AND t = {tag}
         AND {Order::STATE} LIKE {\"o%\"} AND STARTSWITH({Order::STATE}, {&tag.to_owned()}, true)" => String
    );
    written(
        &sql_of(query),
        &expect![[r#"
        SELECT VALUE {"value": t, "keys": []} FROM c JOIN t IN c["tags"] WHERE (c["type"] = @p0 AND c["totalCents"] BETWEEN @p1 AND @p2 AND @p2 > c["totalCents"] AND (c["state"] NOT IN (@p3, 'b')) AND ARRAY_CONTAINS(c["tags"], @p4) AND (t = @p4) AND c["state"] LIKE @p5 AND STARTSWITH(c["state"], @p4, true))
        @p0 = "order"
        @p1 = 1
        @p2 = 9
        @p3 = "a"
        @p4 = "gift"
        @p5 = "o%""#]],
    );
}

#[test]
fn aggregates_and_distinct_values_are_merged_into_columns() {
    let totals = sql!(
        "SELECT c.customerId, SUM({Order::TOTAL_CENTS}) AS total, COUNT(1) AS orders, {Order::STATE}
         FROM {Order} GROUP BY c.customerId, {Order::STATE}" => Value
    );
    let totals = sql_of(totals);
    written(
        &totals,
        &expect![[r#"
        SELECT [{"item": c.customerId}, {"item": c["state"]}] AS keys, [{"item": SUM(c["totalCents"])}, {"item": COUNT(1)}] AS items FROM c WHERE c["type"] = @p0 GROUP BY c.customerId, c["state"]
        @p0 = "order""#]],
    );
    let row = Fetch::<Shop>::read_row(&totals, r#"[["ann","open"],[7,2]]"#).unwrap();
    assert_eq!(
        row,
        json!({"customerId": "ann", "total": 7, "orders": 2, "state": "open"})
    );

    let count = sql_of(sql!("SELECT VALUE COUNT(1) FROM {Order}" => u64));
    written(
        &count,
        &expect![[r#"
        SELECT [{"item": COUNT(1)}] AS items FROM c WHERE c["type"] = @p0
        @p0 = "order""#]],
    );
    assert_eq!(Fetch::<Shop>::read_row(&count, "3").unwrap(), 3);

    let states =
        sql_of(sql!("SELECT DISTINCT {Order::STATE}, {Order::NUMBER} FROM {Order}" => Value));
    written(
        &states,
        &expect![[r#"
        SELECT DISTINCT [{"item": c["state"]}, {"item": c["number"]}] AS keys FROM c WHERE c["type"] = @p0
        @p0 = "order""#]],
    );
    let row = Fetch::<Shop>::read_row(&states, r#"["open",1]"#).unwrap();
    assert_eq!(row, json!({"state": "open", "number": 1}));
}

#[test]
fn a_value_that_json_cannot_express_fails_the_statement() {
    let query = sql!("SELECT * FROM {Order} WHERE {Order::TOTAL_CENTS} = {(u64::MAX)}");
    let error = Fetch::<Shop>::statement(&query).unwrap_err();
    assert_eq!(error.path, "/totalCents");
}

#[test]
fn explain_names_the_indexes_of_each_condition() {
    let query = sql!(
        "SELECT * FROM {Order} WHERE {Order::STATE} = 'open' AND {Order::TOTAL_CENTS} > 5
         AND CONTAINS({Order::STATE}, 'e') AND ({Order::STATE} = 'a' OR {Order::STATE} = 'b')
         ORDER BY {Order::BY_TOTAL} DESC"
    );
    let policy = Shop::definition().indexing_policy;
    let explained = sql_of(query).in_partition("ann").explain(&policy);
    expect![[r#"
        served by an index: (c["type"] = "order" AND c["state"] = 'open' AND c["totalCents"] > 5 AND CONTAINS(c["state"], 'e') AND ((c["state"] = 'a' OR c["state"] = 'b')))
          within one partition
          range index /type
          range index /state
          range index /totalCents
          scan of the range index /state
          composite index /state, /totalCents
          checked per document ((c["state"] = 'a' OR c["state"] = 'b'))
    "#]].assert_eq(&explained.to_string());
}
