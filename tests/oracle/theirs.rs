//! The in-memory emulator of the Cosmos team (`azure_data_cosmos_driver`), called at its driver's
//! interface: with an HTTP request, below everything that retries, routes or caches.

use azure_core::http::headers::{HeaderName, HeaderValue};
use azure_core::http::{Method, RawResponse, Request as HttpRequest, Url};
use azure_data_cosmos_driver::in_memory_emulator::{
    ConsistencyLevel, InMemoryEmulatorHttpClient, VirtualAccountConfig, VirtualRegion,
};

use crate::exchange::{Answer, Emulator, Request};

/// The region of an account, which accepts writes.
pub(crate) const GATEWAY: &str = "https://east.emulator.local";
/// The other region of an account with two.
pub(crate) const SATELLITE: &str = "https://west.emulator.local";

/// An account in memory.
#[derive(Debug)]
pub(crate) struct Theirs {
    client: InMemoryEmulatorHttpClient,
    gateway: Url,
}

impl Theirs {
    /// One region, session consistency, no throttling, no replication delay.
    pub(crate) fn start() -> Self {
        Self::in_regions(&[("East US", GATEWAY)])
    }

    pub(crate) fn in_regions(regions: &[(&str, &str)]) -> Self {
        let address = |text: &str| Url::parse(text).expect("an address");
        let regions = regions
            .iter()
            .map(|(name, gateway)| VirtualRegion::new(name, address(gateway)));
        let config = VirtualAccountConfig::new(regions.collect())
            .expect("these regions are an account")
            .with_consistency(ConsistencyLevel::Session);
        Self {
            client: InMemoryEmulatorHttpClient::new(config),
            gateway: address(GATEWAY),
        }
    }
}

impl Theirs {
    /// Sends a request to a region.
    pub(crate) async fn send(
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

impl Emulator for Theirs {
    async fn ask(&mut self, request: &Request) -> Answer {
        let headers = request.headers.iter();
        let headers = headers.map(|(name, value)| ((*name).to_owned(), value.clone()));
        let mut url = self.gateway.clone();
        url.set_path(&request.resource.path());
        let answer = self.send(&request.method, url, headers, request.bytes());
        let answer = answer.await;
        let header = |name| {
            let name = HeaderName::from_static(name);
            answer.headers().get_optional_str(&name).map(str::to_owned)
        };
        Answer::read(answer.status().into(), header, answer.body().as_ref())
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
