//! The untyped state of one container, and its own deletion.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use cdb_model::ETag;
use http::Method;
use serde::Deserialize;

use crate::container::unique_keys::UniqueKeys;
use crate::error::{RequestKind, Result};
use crate::protocol::{Repeat, Request};
use crate::retry::{Channel, Pipeline};

/// One container of one account. Clones share what the process knows of it.
#[derive(Clone, Debug)]
pub(crate) struct ContainerContext {
    channel: Channel,
    pub unique_keys: Arc<UniqueKeys>,
}

impl Deref for ContainerContext {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.channel
    }
}

/// Which container has the name: the resource id, and the version of its definition.
#[derive(Deserialize)]
struct Identity {
    #[serde(rename = "_rid")]
    rid: String,
    #[serde(rename = "_etag")]
    etag: ETag,
}

impl ContainerContext {
    pub(crate) fn new(pipeline: Arc<Pipeline>, database: &str, container: &str) -> Self {
        Self {
            channel: Channel::new(pipeline, database, container),
            unique_keys: Arc::default(),
        }
    }

    /// Returns a clone whose requests are background work.
    pub(crate) fn in_background(&self) -> Self {
        Self {
            channel: self.channel.in_background(),
            unique_keys: self.unique_keys.clone(),
        }
    }

    /// Forgets what is known of a deleted or re-created container.
    pub(crate) fn forget(&self) {
        self.channel.forget();
        self.unique_keys.forget();
    }

    /// Deletes the container and everything in it. The request names the version that was read, so
    /// that a repetition after a lost answer does not delete a newer container of this name.
    pub(crate) async fn delete(&self) -> Result<()> {
        let found = self.identity().await?;
        let resource = self.resource.clone();
        let request = Request::new(RequestKind::DeleteContainer, Method::DELETE, resource)
            .if_match(&found.etag)?
            .repeat(Repeat::Always);
        // Also before, because the call may be cancelled.
        self.forget();
        let result = self.send(&request).await;
        self.forget();
        match result {
            Err(error) if error.is_missing_after_doubt() => Ok(()),
            Err(error) if error.is_precondition_failed() => match self.identity().await {
                // Its definition has changed since it was read.
                Ok(latest) if latest.rid == found.rid => Err(error),
                Err(other) if !other.is_not_found() => Err(other),
                Ok(_) | Err(_) => Ok(()),
            },
            other => other.map(drop),
        }
    }

    async fn identity(&self) -> Result<Identity> {
        let resource = self.resource.clone();
        let read = Request::new(RequestKind::ReadContainer, Method::GET, resource);
        self.send(&read).await?.metadata()
    }

    /// Creates a request to the items of this container.
    pub(crate) fn items_request(
        &self,
        kind: RequestKind,
        content_type: &'static str,
        body: Bytes,
    ) -> Request {
        Request::new(kind, Method::POST, self.resource.items()).body(content_type, body)
    }
}
