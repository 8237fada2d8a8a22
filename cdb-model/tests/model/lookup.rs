//! How many keys one query takes.

use cdb_model::limits::{MAX_KEYS_PER_QUERY, MAX_QUERY_BYTES, MAX_REQUEST_BYTES};
use cdb_model::query::statement::{Fetch, KeyLookup};
use cdb_model::value::ItemId;
use cdb_model::{Container, Document, DocumentKey, PartitionKey};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "ticket", id = "{name}")]
struct Ticket {
    #[document(partition_key(1))]
    team: String,
    #[document(partition_key(2))]
    queue: u32,
    name: String,
}

#[derive(Container)]
enum Desk {
    Ticket(Ticket),
}

fn key(team: &str, queue: u32, name: &str) -> (PartitionKey, ItemId) {
    let id = TicketKey::new(name).to_id().expect("a short id");
    (PartitionKey::from((team, queue)), id)
}

#[test]
fn ids_are_grouped_by_partition() {
    let keys = [key("red", 1, "b"), key("blue", 2, "a"), key("red", 1, "a")];
    let queries = KeyLookup::divide::<Desk>(keys);
    let statement = Fetch::<Desk>::statement(&queries[0]).unwrap();
    assert_eq!(queries.len(), 1);
    assert_eq!(
        statement.sql,
        concat!(
            r#"SELECT * FROM c WHERE ((c["team"] = @p0 AND c["queue"] = @p1 AND c["id"] IN (@p2)) "#,
            r#"OR (c["team"] = @p3 AND c["queue"] = @p4 AND c["id"] IN (@p2, @p5)))"#
        )
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_key_is_in_one_query_within_the_limits(
        count in 1_usize..2_500,
        long in "[a\"\\\\é]{1,250}",
        teams in 1_usize..700,
    ) {
        let keys: Vec<_> = (0..count)
            .map(|at| key(&format!("{long}{}", at % teams), 1, &format!("{long}{at}")))
            .collect();
        let queries = KeyLookup::divide::<Desk>(keys.clone());
        for query in &queries {
            let statement = Fetch::<Desk>::statement(query).unwrap();
            let parameters = serde_json::to_string(&statement.parameters).unwrap();
            prop_assert!(query.keys().len() <= MAX_KEYS_PER_QUERY);
            prop_assert!(statement.sql.len() <= MAX_QUERY_BYTES);
            prop_assert!(statement.sql.len() + parameters.len() <= MAX_REQUEST_BYTES);
        }
        let mut divided: Vec<_> = queries.iter().flat_map(KeyLookup::keys).cloned().collect();
        let mut expected = keys;
        divided.sort();
        expected.sort();
        prop_assert_eq!(divided, expected);
        prop_assert!(queries.len() <= 1 + count / 400);
    }
}
