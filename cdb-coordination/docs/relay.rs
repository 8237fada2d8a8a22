// A relay for the examples of the dispatcher.
use std::sync::Mutex;
use std::time::Duration;

use cdb_coordination::outbox::OutboxTransport;
use cdb_coordination::retry::DeliveryError;

/// Delivers numbers from one list in memory to another.
#[derive(Default)]
pub struct Numbers {
    pub left: Mutex<Vec<u64>>,
    pub delivered: Mutex<Vec<u64>>,
}

#[async_trait::async_trait]
impl OutboxTransport for Numbers {
    type Message = u64;

    async fn deliver(&self, messages: &[u64], delivered: &[u64]) -> Vec<Result<(), DeliveryError>> {
        self.left
            .lock()
            .unwrap()
            .retain(|message| !delivered.contains(message));
        self.delivered.lock().unwrap().extend(messages);
        messages.iter().map(|_| Ok(())).collect()
    }

    async fn find_due(&self, most: usize) -> Result<Vec<u64>, cdb_client::Error> {
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

    async fn postpone(&self, _: &u64, _: &DeliveryError, _: Duration) {}

    async fn dead_letter(&self, _: &u64, _: &DeliveryError) {}

    fn describe(&self, message: &u64) -> String {
        message.to_string()
    }
}
