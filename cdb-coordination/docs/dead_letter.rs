// For the examples of dead letters.
include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs"));

use std::time::Duration;

use cdb_coordination::{DeadLetter, Failed, Mailbox, Received};
use cdb_model::Timestamp;

/// A message from Ann to the warehouse, which its handler has given up.
pub async fn given_up(shop: ContainerClient<Shop>) -> Result<DeadLetter, Box<dyn Error>> {
    let mailbox = Mailbox::builder(shop)
        .on(async |_: Received<Placed>, _| Err(Failed::permanently("closed on Sundays")))
        .start();
    let mut draft = mailbox.draft("ann");
    draft.send("warehouse", &Placed { number: 7 })?;
    mailbox.commit(draft).await?;
    let dead = mailbox.dead_letters();
    let letter = loop {
        if let Some(letter) = dead.list(Timestamp::default(), 1).await?.pop() {
            break letter;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    mailbox.stop().await;
    Ok(letter)
}
