//! The in-memory emulator of the Cosmos team (`azure_data_cosmos_driver`), called at its driver's
//! interface: with an HTTP request, below everything that retries, routes or caches.

use azure_core::http::headers::{HeaderName, HeaderValue};
use azure_core::http::{Method, Request as HttpRequest, Url};
use azure_data_cosmos_driver::in_memory_emulator::{
    ConsistencyLevel, InMemoryEmulatorHttpClient, VirtualAccountConfig, VirtualRegion,
};

use crate::exchange::{Answer, Emulator, Request};

/// Its only region.
const GATEWAY: &str = "https://east.emulator.local";

/// An account in memory.
#[derive(Debug)]
pub(crate) struct Theirs {
    client: InMemoryEmulatorHttpClient,
    gateway: Url,
}

impl Theirs {
    /// One region, session consistency, no throttling, no replication delay.
    pub(crate) fn start() -> Self {
        let gateway = Url::parse(GATEWAY).expect("an address");
        let region = VirtualRegion::new("East US", gateway.clone());
        let config = VirtualAccountConfig::new(vec![region])
            .expect("one region is an account")
            .with_consistency(ConsistencyLevel::Session);
        Self {
            client: InMemoryEmulatorHttpClient::new(config),
            gateway,
        }
    }
}

impl Emulator for Theirs {
    async fn ask(&mut self, request: &Request) -> Answer {
        let mut url = self.gateway.clone();
        url.set_path(&request.resource.path());
        let mut sent = HttpRequest::new(url, method(&request.method));
        for (name, value) in &request.headers {
            let name = HeaderName::from_static(name);
            sent.headers_mut()
                .insert(name, HeaderValue::from(value.clone()));
        }
        sent.set_body(request.bytes());
        let answer = self.client.execute_request(&sent).await;
        let answer = answer.expect("its region is there");
        let answer = answer
            .try_into_raw_response()
            .await
            .expect("it is buffered");
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
