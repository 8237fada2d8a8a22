//! Increments that keep a number within its type.

use cdb_model::{Container, Document, Patch};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::catalog::Numbers;

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "counter", id = "counter")]
struct Counter {
    #[document(partition_key)]
    shop: String,
    small: u8,
    signed: i16,
    large: u64,
}

#[derive(Container, Clone, Debug)]
enum Counters {
    Counter(Counter),
}

#[tokio::test]
async fn a_number_stays_readable_after_any_increment() {
    let account = Account::new().await;
    let counters = account.open::<Counters>("counters").await;
    let mut expected = Counter {
        shop: "s".to_owned(),
        small: 250,
        signed: -32_760,
        large: 3,
    };
    counters.run(expected.create()).await.unwrap();
    let address = expected.address();
    let mut random = Numbers(11);
    for _ in 0..60 {
        let by = i64::try_from(random.below(40)).unwrap() - 20;
        let (patch, fits) = match random.below(3) {
            0 => {
                let sum = u8::try_from(i64::from(expected.small) + by);
                let patch = Patch::new().incr(Counter::SMALL, by);
                (patch, sum.map(|sum| expected.small = sum).is_ok())
            }
            1 => {
                let sum = i16::try_from(i64::from(expected.signed) + by);
                let patch = Patch::new().incr(Counter::SIGNED, by);
                (patch, sum.map(|sum| expected.signed = sum).is_ok())
            }
            _ => {
                let sum = u64::try_from(i64::try_from(expected.large).unwrap() + by);
                let patch = Patch::new().incr(Counter::LARGE, by);
                (patch, sum.map(|sum| expected.large = sum).is_ok())
            }
        };
        match counters.run(patch.at(&address)).await {
            Ok(_) => assert!(fits, "{patch:?}"),
            Err(error) => assert!(error.is_precondition_failed() && !fits, "{error}"),
        }
        let read = counters.read(&address).await.unwrap().unwrap();
        assert_eq!(read.document, expected, "{patch:?}");
    }
}
