//! HTTPS from the provider to a server that made its own certificate.

use cdb_emulator::Emulator;
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};

use super::{without_key, work_gets_done};

async fn open(emulator: &Emulator, on_trust: bool) -> Result<CosmosDBProvider, String> {
    let config = CosmosDBProviderConfig {
        key: emulator.key().to_owned(),
        accept_invalid_certificates_on_loopback: on_trust,
        ..without_key(emulator.endpoint())
    };
    let opened = CosmosDBProvider::new_with_config(config).await;
    opened.map_err(|error| {
        assert!(!error.is_retryable(), "{error}");
        error.to_string()
    })
}

#[tokio::test]
async fn a_provider_accepts_an_unchecked_certificate_on_loopback() {
    let emulator = Emulator::builder().tls(true).start().await;
    let emulator = emulator.expect("the emulator starts");
    let provider = open(&emulator, true)
        .await
        .expect("any certificate will do");
    work_gets_done(&provider, "tls").await;
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused_at_once_with_a_clear_error() {
    let emulator = Emulator::builder().tls(true).start().await;
    let emulator = emulator.expect("the emulator starts");
    let text = open(&emulator, false)
        .await
        .expect_err("the certificate is untrusted");
    says!(text, "certificate of `127.0.0.1` is not trusted");
    assert!(text.contains(", 1 attempt in "), "{text}");
}

#[tokio::test]
async fn certificates_of_other_machines_are_always_checked() {
    let config = CosmosDBProviderConfig {
        key: cdb_emulator::WELL_KNOWN_KEY.to_owned(),
        accept_invalid_certificates_on_loopback: true,
        ..without_key("https://account.documents.azure.com".to_owned())
    };
    let error = CosmosDBProvider::new_with_config(config).await;
    let error = error.expect_err("this is not this machine");
    assert!(error.to_string().contains("loopback hosts only"), "{error}");
}
