//! The documents of these tests: orders, and one profile per customer.

use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "order:{number}")]
#[document(composite(BY_STATUS = status, placed_at))]
pub(crate) struct Order {
    #[document(partition_key)]
    pub(crate) customer: String,
    pub(crate) number: u64,
    #[document(index)]
    pub(crate) status: String,
    #[document(index)]
    pub(crate) placed_at: u64,
    pub(crate) view_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "profile", id = "profile:{customer}")]
pub(crate) struct Profile {
    #[document(partition_key)]
    pub(crate) customer: String,
    pub(crate) name: String,
}

#[derive(Container, Clone, Debug, PartialEq)]
pub(crate) enum Shop {
    Order(Order),
    Profile(Profile),
}

/// The same documents under another partition key.
pub(crate) mod elsewhere {
    use super::{Container, Deserialize, Document, Serialize};

    #[derive(Document, Serialize, Deserialize, Clone, Debug)]
    #[document(type = "parcel", id = "parcel:{number}")]
    pub(crate) struct Parcel {
        #[document(partition_key)]
        pub(crate) country: String,
        pub(crate) number: u64,
    }

    #[derive(Container, Clone, Debug)]
    pub(crate) enum Depot {
        Parcel(Parcel),
    }
}

pub(crate) fn order(customer: &str, number: u64) -> Order {
    Order {
        customer: customer.to_owned(),
        number,
        status: if number.is_multiple_of(2) {
            "new"
        } else {
            "paid"
        }
        .to_owned(),
        placed_at: 10_000 - number * 7 % 1000,
        view_count: 0,
        note: None,
    }
}

pub(crate) fn profile(customer: &str) -> Profile {
    Profile {
        customer: customer.to_owned(),
        name: "Ann".to_owned(),
    }
}
