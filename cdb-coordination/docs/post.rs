// A carrier, for the examples of what works with one.
use std::sync::Mutex;
use std::time::Duration;

use cdb_coordination::{Carrier, Undelivered};

/// Carries numbers from one list in memory to another.
#[derive(Default)]
pub struct Post {
    pub left: Mutex<Vec<u64>>,
    pub delivered: Mutex<Vec<u64>>,
}

#[async_trait::async_trait]
impl Carrier for Post {
    type Parcel = u64;

    async fn deliver(&self, parcels: &[u64], delivered: &[u64]) -> Vec<Result<(), Undelivered>> {
        self.left
            .lock()
            .unwrap()
            .retain(|parcel| !delivered.contains(parcel));
        self.delivered.lock().unwrap().extend(parcels);
        parcels.iter().map(|_| Ok(())).collect()
    }

    async fn left_behind(&self, most: usize) -> Result<Vec<u64>, cdb_client::Error> {
        Ok(self
            .left
            .lock()
            .unwrap()
            .iter()
            .copied()
            .take(most)
            .collect())
    }

    fn attempts(&self, _: &u64) -> (u32, u32) {
        (0, 0)
    }

    async fn postpone(&self, _: &u64, _: &Undelivered, _: Duration) {}

    async fn bury(&self, _: &u64, _: &Undelivered) {}

    fn describe(&self, parcel: &u64) -> String {
        parcel.to_string()
    }
}
