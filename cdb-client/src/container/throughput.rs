//! The throughput of a container, from its offer or that of its database.
//!
//! Only keys can read offers: the roles of Entra ID for data have no such right (Azure, "Connect to
//! Azure Cosmos DB using role-based access control", limits).

use http::Method;
use serde::Deserialize;
use tokio::time::timeout;

use crate::container::context::ContainerContext;
use crate::error::Result;
use crate::governor::LONGEST_WAIT;
use crate::header;
use crate::operation::OperationKind;
use crate::request::Request;
use crate::resource::Resource;

/// The `_self` link of a container: `dbs/{rid}/colls/{rid}/`.
#[derive(Deserialize)]
struct Link {
    #[serde(rename = "_self")]
    link: String,
}

#[derive(Deserialize)]
struct Listing {
    #[serde(rename = "Offers")]
    offers: Vec<Offer>,
}

#[derive(Deserialize)]
struct Offer {
    /// The `_self` link of its container or database.
    resource: String,
    content: Content,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    offer_throughput: Option<f64>,
    offer_autopilot_settings: Option<Autoscale>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Autoscale {
    max_throughput: Option<f64>,
}

impl Offer {
    /// Returns the most RU/s of the offer.
    fn throughput(&self) -> Option<f64> {
        let autoscale = self.content.offer_autopilot_settings.as_ref();
        autoscale
            .and_then(|settings| settings.max_throughput)
            .or(self.content.offer_throughput)
            .filter(|units| *units > 0.0)
    }
}

impl ContainerContext {
    /// Tells the governor the RU/s of the container, if the offers can be read.
    pub(super) async fn learn_throughput(&self) {
        // As long as a background request waits at most.
        match timeout(LONGEST_WAIT, self.throughput()).await {
            Ok(Ok(Some(throughput))) => self.governor.learn(throughput),
            Ok(Ok(None)) => tracing::debug!("the container has no offer"),
            Ok(Err(error)) => tracing::debug!(%error, "offers cannot be read"),
            Err(_) => tracing::debug!("offers were not read within {LONGEST_WAIT:?}"),
        }
    }

    /// Returns the RU/s of the container, or those that it shares with others of its database;
    /// `None` for a serverless account.
    async fn throughput(&self) -> Result<Option<f64>> {
        let resource = self.resource.clone();
        let read = Request::new(OperationKind::ReadContainer, Method::GET, resource);
        let Link { link } = self.pipeline.send(&read, None).await?.metadata()?;
        let mut shared = None;
        let mut continuation: Option<String> = None;
        loop {
            let list = Request::new(OperationKind::ReadOffers, Method::GET, Resource::offers());
            let mut list = list.header(header::MAX_ITEMS, "-1");
            if let Some(token) = &continuation {
                list = list.header_value(header::CONTINUATION, token)?;
            }
            let page = self.pipeline.send(&list, None).await?;
            for offer in page.metadata::<Listing>()?.offers {
                if offer.resource == link {
                    return Ok(offer.throughput());
                }
                if link.starts_with(&offer.resource) {
                    shared = offer.throughput();
                }
            }
            continuation = page.continuation();
            if continuation.is_none() {
                return Ok(shared);
            }
        }
    }
}
