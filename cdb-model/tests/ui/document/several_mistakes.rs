//! One compilation reports all mistakes, and code that uses the type adds none.

use cdb_model::DocumentKey;
use cdb_model::stored::decode_any;

include!("../declaration.rs");

#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{customer}:{nmber}")]
#[document(composite(BY_STATUS = r#type, status))]
struct Order {
    #[document(partition_key)]
    customer: Option<String>,
    number: u64,
    status: String,
    #[document(indexed)]
    total: u64,
}

#[derive(Container)]
enum Shop {
    Order(Order),
}

fn use_it(order: &Order) {
    let _ = order.key().to_id();
    let _ = Query::<Order>::across_partitions().filter(Order::TOTAL.ge(3_u64));
    let _: Shop = decode_any::<Shop>("{}").unwrap().document;
}
