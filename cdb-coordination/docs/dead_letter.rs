// For the examples of dead letters.
include!("shop.rs");

use std::time::Duration;

use cdb_coordination::{DeadLetter, Failed, Messaging, Received};
use cdb_model::Timestamp;

/// A message from Ann to the warehouse that its handler has refused.
pub async fn given_up(shop: ContainerClient<Shop>) -> Result<DeadLetter, Box<dyn Error>> {
    let messaging = Messaging::builder(shop)
        .on(async |_: Received<Placed>, _| Err(Failed::permanently("closed on Sundays")))
        .start();
    let mut batch = messaging.batch("ann");
    batch.send("warehouse", &Placed { number: 7 })?;
    messaging.commit(batch).await?;
    let dead = messaging.dead_letters();
    let letter = loop {
        if let Some(letter) = dead.list(Timestamp::default(), 1).await?.pop() {
            break letter;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    messaging.stop().await;
    Ok(letter)
}
