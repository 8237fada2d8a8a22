//! A container with two document types. The key of `Profile` contains its partition key.

use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

use super::fixture::client;
use crate::container::ContainerClient;
use crate::transport::Script;

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "order:{number}", unique(r#type, number))]
pub(super) struct Order {
    #[document(partition_key)]
    pub customer: String,
    pub number: u64,
    #[document(index)]
    pub status: String,
    pub view_count: u32,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "profile", id = "profile:{customer}")]
pub(super) struct Profile {
    #[document(partition_key)]
    pub customer: String,
    pub name: String,
}

#[derive(Container, Debug, PartialEq)]
pub(super) enum Shop {
    Order(Order),
    Profile(Profile),
}

pub(super) fn shop(script: &Script) -> ContainerClient<Shop> {
    client(script).database("db").container("c")
}

pub(super) fn order(number: u64) -> Order {
    Order {
        customer: "ann".to_owned(),
        number,
        status: "new".to_owned(),
        view_count: 0,
    }
}

pub(super) fn profile() -> Profile {
    Profile {
        customer: "ann".to_owned(),
        name: "Ann".to_owned(),
    }
}
