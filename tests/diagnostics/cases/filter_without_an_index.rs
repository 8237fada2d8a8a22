//! A property without an index is not a filter; an attribute is.

use cdb_provider::documents::Instance;
use cdb_provider::{CosmosDBProvider, SearchAttributes};

#[derive(SearchAttributes)]
struct OrderSearch {
    customer: String,
}

fn search(provider: &CosmosDBProvider) {
    let wanted = OrderSearch::CUSTOMER.eq("ada") & Instance::ORCHESTRATION_NAME.eq("Order");
    let _ = provider.instances_where(wanted);
}

fn main() {}
