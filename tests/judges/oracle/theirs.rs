//! The emulator of the Cosmos team, called in the process.

use azure_core::http::headers::HeaderName;
use cdb_second_store::Theirs;

use crate::exchange::{Answer, Emulator, Request};

/// The region of an account, which accepts writes.
pub(crate) const GATEWAY: &str = "https://east.emulator.local";
/// The other region of an account with two.
pub(crate) const SATELLITE: &str = "https://west.emulator.local";

/// Starts an account with one region.
pub(crate) fn start() -> Theirs {
    Theirs::in_regions(&[("East US", GATEWAY)])
}

impl Emulator for Theirs {
    async fn ask(&mut self, request: &Request) -> Answer {
        let headers = request.headers.iter();
        let headers = headers.map(|(name, value)| ((*name).to_owned(), value.clone()));
        let mut url = self.gateway().clone();
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
