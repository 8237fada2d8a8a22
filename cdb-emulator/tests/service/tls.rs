//! Tests of HTTPS: the certificate is valid for the loopback names and for clients that trust its
//! authority.

use cdb_emulator::Emulator;
use reqwest::{Certificate, ClientBuilder};

/// A client that trusts these authorities only.
fn client(trusted: Vec<Certificate>) -> reqwest::Client {
    // Another test can have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = ClientBuilder::new().tls_certs_only(trusted);
    builder.build().expect("a client")
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_can_connect() {
    let emulator = Emulator::builder().tls(true).start().await.unwrap();
    let pem = emulator.certificate_pem().expect("there is one");
    let trusting = client(vec![Certificate::from_pem(pem.as_bytes()).unwrap()]);
    let by_address = emulator.endpoint();
    let by_name = by_address.replace("127.0.0.1", "localhost");
    for endpoint in [&by_address, &by_name] {
        let answer = trusting.get(endpoint).send().await.expect("an answer");
        assert_eq!(answer.status(), 401, "unsigned, but understood");
    }
    let other = Emulator::builder().tls(true).start().await.unwrap();
    assert!(
        trusting.get(other.endpoint()).send().await.is_err(),
        "each start makes an authority of its own"
    );
}

#[tokio::test]
async fn plain_http_has_no_certificate() {
    let emulator = Emulator::start().await.unwrap();
    assert!(emulator.endpoint().starts_with("http://"));
    assert_eq!(emulator.certificate_pem(), None);
}
