//! `composite`: declared paths and directions, and the constant that sorts by them.

use cdb_model::{CompositeTarget, Container, Direction, Document, Fetch, Query};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:order:{number}")]
#[document(composite(BY_TOTAL = r#type, total_cents desc, number asc), composite(BY_NUMBER = number, total_cents))]
struct Order {
    #[document(partition_key)]
    customer: String,
    #[document(index)]
    number: u32,
    #[document(index)]
    total_cents: u64,
}

#[derive(Container)]
#[container(partition_key = "/customer", discriminator = "kind")]
enum Shop {
    Order(Order),
}

#[test]
fn a_composite_keeps_its_paths_and_directions() {
    let shape = &Order::SHAPE.composites[0];
    assert_eq!(shape.name, "BY_TOTAL");
    let paths: Vec<_> = shape
        .paths
        .iter()
        .map(|path| (path.path, path.direction))
        .collect();
    assert_eq!(
        paths,
        [
            (CompositeTarget::Discriminator, Direction::Ascending),
            (CompositeTarget::Path("/totalCents"), Direction::Descending),
            (CompositeTarget::Path("/number"), Direction::Ascending),
        ]
    );
}

#[test]
fn every_composite_has_a_sort() {
    let sorted = |order: cdb_model::Order<Order>| {
        let query = Query::<Order>::in_partition("c").order_by(order);
        let sql = Fetch::<Shop>::statement(&query).expect("it is valid").sql;
        sql.split_once("ORDER BY ")
            .map(|(_, order)| order.to_owned())
            .unwrap_or_default()
    };
    assert_eq!(
        sorted(Order::BY_TOTAL.into()),
        r#"c["kind"] ASC, c["totalCents"] DESC, c["number"] ASC"#
    );
    assert_eq!(
        sorted(Order::BY_NUMBER.reversed()),
        r#"c["number"] DESC, c["totalCents"] DESC"#
    );
}
