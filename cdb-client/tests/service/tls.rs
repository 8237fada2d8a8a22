//! HTTPS to an emulator with a self-signed certificate.

use cdb_client::{Bootstrap, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::Document;

use crate::shop::{Shop, profile};

#[tokio::test]
async fn https_works_with_an_accepted_self_signed_certificate() {
    let emulator = Emulator::builder().tls(true).start().await.unwrap();
    assert!(emulator.endpoint().starts_with("https://127.0.0.1:"));
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key()).unwrap())
        .accept_invalid_certificates_on_loopback(true)
        .build()
        .unwrap();
    let database = client.database("tls");
    let shop = database.bootstrap::<Shop>("shop", Bootstrap::CreateIfMissing);
    let shop = shop.await.unwrap();
    let stored = profile("ann");
    shop.create(&stored).await.unwrap();
    let read = shop.read(&stored.key()).await.unwrap().unwrap();
    assert_eq!(read.document, stored);
}
