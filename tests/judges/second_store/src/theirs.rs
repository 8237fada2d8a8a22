//! The in-memory emulator of the Cosmos team (`azure_data_cosmos_driver`), called at its driver's
//! interface: with an HTTP request, below everything that retries, routes or caches.

use std::time::Duration;

use azure_core::http::headers::{HeaderName, HeaderValue};
use azure_core::http::{Method, RawResponse, Request as HttpRequest, Url};
use azure_data_cosmos_driver::in_memory_emulator::{
    ConsistencyLevel, InMemoryEmulatorHttpClient, VirtualAccountConfig, VirtualRegion,
};

/// An account in memory.
#[derive(Debug)]
pub struct Theirs {
    client: InMemoryEmulatorHttpClient,
    gateway: Url,
}

impl Theirs {
    /// Starts an account with session consistency, without throttling and replication delay. A
    /// region is a name and an endpoint; the first region accepts writes.
    ///
    /// # Panics
    /// When the regions are not those of an account.
    pub fn in_regions(regions: &[(&str, &str)]) -> Self {
        let address = |text: &str| Url::parse(text).expect("an address");
        let gateway = address(regions[0].1);
        let regions = regions
            .iter()
            .map(|(name, gateway)| VirtualRegion::new(name, address(gateway)));
        let config = VirtualAccountConfig::new(regions.collect())
            .expect("these regions are an account")
            .with_consistency(ConsistencyLevel::Session);
        Self {
            client: InMemoryEmulatorHttpClient::new(config),
            gateway,
        }
    }

    /// Returns the endpoint of the region that accepts writes.
    pub fn gateway(&self) -> &Url {
        &self.gateway
    }

    /// Merges the four physical partitions of a new container into one.
    pub(crate) async fn merge(&self, database: &str, container: &str) {
        let store = self.client.store();
        let (database, container) = (database.to_owned(), container.to_owned());
        let merge = async |one, other| {
            let merged =
                store.merge_partitions_and_wait(&database, &container, one, other, Duration::ZERO);
            merged.await.expect("they are adjacent")
        };
        let (first, second) = (merge(0, 1).await, merge(2, 3).await);
        merge(first, second).await;
    }

    /// Sends a request to a region.
    ///
    /// # Panics
    /// When no region has this endpoint.
    pub async fn send(
        &self,
        method: &http::Method,
        url: Url,
        headers: impl Iterator<Item = (String, String)>,
        body: Vec<u8>,
    ) -> RawResponse {
        let mut sent = HttpRequest::new(url, self::method(method));
        for (name, value) in headers {
            let (name, value) = (HeaderName::from(name), HeaderValue::from(value));
            sent.headers_mut().insert(name, value);
        }
        sent.set_body(body);
        let answer = self.client.execute_request(&sent).await;
        let answer = answer.expect("its region is there");
        let answer = answer.try_into_raw_response().await;
        answer.expect("it is buffered")
    }
}

fn method(method: &http::Method) -> Method {
    match method.as_str() {
        "GET" => Method::Get,
        "PUT" => Method::Put,
        "PATCH" => Method::Patch,
        "DELETE" => Method::Delete,
        _ => Method::Post,
    }
}
