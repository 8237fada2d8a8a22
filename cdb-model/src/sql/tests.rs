//! Tests of the written SQL.

use serde_json::json;

use super::*;
use crate::shape::Direction;

fn parts<'a>(projection: &'a Projection, predicate: &'a Predicate) -> QueryParts<'a> {
    QueryParts {
        projection,
        joins: None,
        predicate,
        order: &[],
        top: None,
        discriminator: "type",
    }
}

#[test]
fn values_are_parameters_and_equal_values_share_one() {
    let predicate = Predicate::And(vec![
        Predicate::IsType("order"),
        Predicate::Compare("/a/b".to_owned(), Comparison::Less, json!("x\"; DROP")),
        Predicate::In("/c".to_owned(), vec![json!(1), json!("order")]),
    ]);
    let (sql, parameters) = query(&parts(&Projection::Document, &predicate)).unwrap();
    assert_eq!(
        sql,
        r#"SELECT * FROM c WHERE (c["type"] = @p0 AND c["a"]["b"] < @p1 AND c["c"] IN (@p2, @p0))"#
    );
    let values: Vec<_> = parameters.into_iter().map(|p| p.value).collect();
    assert_eq!(values, [json!("order"), json!("x\"; DROP"), json!(1)]);
}

#[test]
fn a_projected_value_has_its_sort_keys() {
    let order = [OrderTerm {
        target: SortTarget::Path("/at".into()),
        direction: Direction::Descending,
    }];
    let projection = Projection::Value(Fragment::new().path("/name"));
    let (sql, _) = query(&QueryParts {
        order: &order,
        top: Some(3),
        ..parts(&projection, &Predicate::All)
    })
    .unwrap();
    assert_eq!(
        sql,
        r#"SELECT TOP 3 VALUE {"value": c["name"], "keys": [{"item": c["at"]}]} FROM c ORDER BY c["at"] DESC"#
    );
}

#[test]
fn aggregates_have_the_form_of_the_services_plans() {
    let term = |kind, argument| AggregateTerm { kind, argument };
    let path = |pointer| Fragment::new().path(pointer);
    let projection = Projection::Aggregates {
        keys: vec![Fragment::new().path("/g")],
        terms: vec![
            term(AggregateKind::Count, Fragment::new().text("1")),
            term(AggregateKind::Max, path("/a/b")),
            term(AggregateKind::Average, path("/n")),
        ],
    };
    let (sql, _) = query(&parts(&projection, &Predicate::All)).unwrap();
    assert_eq!(
        sql,
        concat!(
            r#"SELECT [{"item": c["g"]}] AS keys, [{"item": COUNT(1)}, "#,
            r#"{"item": MAX(c["a"]["b"])}, "#,
            r#"{"item": {"sum": SUM(c["n"]), "count": COUNT(c["n"])}}] AS items "#,
            r#"FROM c GROUP BY c["g"]"#
        )
    );
}

#[test]
fn distinct_keys_have_no_groups() {
    let projection = Projection::Aggregates {
        keys: vec![Fragment::new().path("/g")],
        terms: Vec::new(),
    };
    let (sql, _) = query(&parts(&projection, &Predicate::All)).unwrap();
    assert_eq!(sql, r#"SELECT DISTINCT [{"item": c["g"]}] AS keys FROM c"#);
}

#[test]
fn a_literal_cannot_leave_its_quotation_marks() {
    let text = "\\\" OR 1=1 --\n";
    let condition = patch_condition(&Predicate::Compare(
        "/name".to_owned(),
        Comparison::Equal,
        json!(text),
    ))
    .unwrap();
    let literal = condition
        .strip_prefix(r#"from c where c["name"] = "#)
        .unwrap();
    assert_eq!(serde_json::from_str::<String>(literal).unwrap(), text);
}
