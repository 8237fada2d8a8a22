//! How background requests differ from others: the class of a request, and its settings.

use http::{HeaderMap, HeaderValue};

use crate::error::{Error, Result};
use crate::protocol::header;

/// The class of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    #[default]
    Foreground,
    /// Waits for the governor, and is throttled first where the account can do that.
    Background,
}

/// How the client treats the requests of
/// [`ContainerClient::in_background`](crate::ContainerClient::in_background).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackgroundConfig {
    /// The share of a container's RU/s up to which background requests are sent, above 0 and at most
    /// 1; 0.8 by default. The RU/s are those that this process spent when a request was
    /// throttled. The share is for all requests of the process: background requests use what the
    /// others leave below it.
    pub share: f64,
    /// Whether background requests have the priority level `Low`, so that an account with
    /// priority-based execution throttles them first. On by default: other accounts ignore the level
    /// (.NET SDK, reference of `RequestOptions.PriorityLevel`).
    pub low_priority: bool,
    /// The throughput bucket of background requests, 1 to 5; none by default. The container limits
    /// the share of its RU/s that the requests of a bucket use. A bucket that is not configured
    /// has no limit (Azure, FAQ on throughput buckets).
    pub throughput_bucket: Option<u8>,
}

impl Default for BackgroundConfig {
    fn default() -> Self {
        Self {
            share: 0.8,
            low_priority: true,
            throughput_bucket: None,
        }
    }
}

impl BackgroundConfig {
    /// Sets the share of the RU/s up to which background requests are sent.
    pub fn with_share(mut self, share: f64) -> Self {
        self.share = share;
        self
    }

    /// Sets whether background requests have the priority level `Low`.
    pub fn with_low_priority(mut self, low: bool) -> Self {
        self.low_priority = low;
        self
    }

    /// Sets the throughput bucket of background requests.
    pub fn with_throughput_bucket(mut self, bucket: impl Into<Option<u8>>) -> Self {
        self.throughput_bucket = bucket.into();
        self
    }

    /// Refuses values that the service would refuse, or with which nothing would be sent.
    pub(crate) fn check(&self) -> Result<()> {
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(Error::configuration(format!(
                "`share` of background requests is {}; set it above 0 and at most 1",
                self.share
            )));
        }
        match self.throughput_bucket {
            Some(bucket) if !(1..=5).contains(&bucket) => Err(Error::configuration(format!(
                "throughput bucket {bucket} does not exist; use a bucket from 1 to 5, or none"
            ))),
            _ => Ok(()),
        }
    }

    /// Adds the headers of a background request.
    pub(crate) fn label(&self, headers: &mut HeaderMap) {
        if self.low_priority {
            headers.insert(header::PRIORITY_LEVEL, HeaderValue::from_static("Low"));
        }
        if let Some(bucket) = self.throughput_bucket {
            headers.insert(
                header::THROUGHPUT_BUCKET,
                HeaderValue::from(u16::from(bucket)),
            );
        }
    }
}
