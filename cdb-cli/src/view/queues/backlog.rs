//! The queues of everything that a container holds, in numbers.

use std::fmt;
use std::time::Duration;

use cdb_provider::observe::{DueSlot, Queues, Waiting};
use cdb_work::WorkCounts;
use futures::try_join;
use serde::Serialize;

use super::limited_keys::Keys;
use super::running;
use crate::container::Holdings;
use crate::exit::Failure;
use crate::model::messages::{List, MessageSource, Source, Step};
use crate::output::{milliseconds, span, table};
use crate::view::messages::change_feed;

/// The queues of a container.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Backlog {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub orchestrations: Option<Queues>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messaging: Option<Retries>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_feed: Option<Feed>,
}

/// The messages between partitions that are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Retries {
    pub outbox_retrying: u64,
    /// Each blocks its stream.
    pub inbox_retrying: u64,
}

/// The messages of ordered work.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Work {
    /// Messages that are due or wait for an earlier one, with those that are retried.
    pub waiting: Waiting,
    pub retrying: u64,
    /// Those that wait for an operator.
    pub dead: u64,
    /// The streams that wait for a failed message.
    pub blocked_streams: u64,
}

/// The parts of change feeds.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Feed {
    pub parts: usize,
    /// Parts whose last attempt failed.
    pub failing: usize,
    /// The largest lag of a part.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "milliseconds",
        rename = "lagMs"
    )]
    pub lag: Option<Duration>,
}

/// Reads the queues. Each count reads the index of every physical partition.
///
/// # Errors
/// When the container holds nothing that has queues, or a query fails.
pub(crate) async fn read(holdings: &Holdings) -> Result<Backlog, Failure> {
    let orchestrations = async {
        match &holdings.orchestrations {
            Some(found) => Ok(Some(found.provider.observe().queues().await?)),
            None => Ok(None),
        }
    };
    let messaging = async {
        match holdings.messages.of(Source::Partitions) {
            Some(messages) => retries(messages).await.map(Some),
            None => Ok(None),
        }
    };
    let (orchestrations, messaging, work, change_feed) = try_join!(
        orchestrations,
        messaging,
        work(holdings),
        Box::pin(feed(holdings))
    )?;
    let backlog = Backlog {
        orchestrations,
        messaging,
        work,
        change_feed,
    };
    if backlog.rows().is_empty() {
        return Err(holdings.lacks("queues"));
    }
    Ok(backlog)
}

/// Counts the messages that are retried.
async fn retries(messages: &dyn MessageSource) -> Result<Retries, Failure> {
    let (outbox_retrying, inbox_retrying) = try_join!(
        messages.count(List::Retrying(Step::Delivery)),
        messages.count(List::Retrying(Step::Handling)),
    )?;
    Ok(Retries {
        outbox_retrying,
        inbox_retrying,
    })
}

async fn work(holdings: &Holdings) -> Result<Option<Work>, Failure> {
    let Some(admin) = &holdings.work else {
        return Ok(None);
    };
    let counts: WorkCounts = admin.counts().await?;
    Ok(Some(Work {
        waiting: Waiting {
            count: counts.waiting,
            oldest: counts.oldest.map(|oldest| holdings.now().since(oldest)),
        },
        retrying: counts.retrying,
        dead: counts.dead,
        blocked_streams: counts.blocked_streams(),
    }))
}

async fn feed(holdings: &Holdings) -> Result<Option<Feed>, Failure> {
    if holdings.feeds.is_none() {
        return Ok(None);
    }
    let feeds = change_feed::read(holdings).await?;
    let failing = feeds.parts.iter().filter(|part| part.failure.is_some());
    Ok(Some(Feed {
        parts: feeds.parts.len(),
        failing: failing.count(),
        lag: feeds.parts.iter().filter_map(|part| part.lag).max(),
    }))
}

impl Backlog {
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |name: &str, count: u64, oldest: Option<Duration>| {
            vec![
                name.to_owned(),
                count.to_string(),
                oldest.map(span).unwrap_or_default(),
            ]
        };
        let mut rows = Vec::new();
        if let Some(of) = &self.orchestrations {
            rows.extend([
                row("messages due", of.messages.count, of.messages.oldest),
                row("timers", of.timers, None),
                row("activities due", of.activities.count, of.activities.oldest),
                row("activities running", of.running, None),
                row("outbox", of.outbox.count, of.outbox.oldest),
            ]);
        }
        if let Some(of) = &self.messaging {
            rows.extend([
                row("outbox retrying", of.outbox_retrying, None),
                row("inbox retrying", of.inbox_retrying, None),
            ]);
        }
        if let Some(of) = &self.work {
            rows.extend([
                row("work waiting", of.waiting.count, of.waiting.oldest),
                row("work retrying", of.retrying, None),
                row("work dead", of.dead, None),
                row("streams blocked", of.blocked_streams, None),
            ]);
        }
        if let Some(of) = &self.change_feed {
            rows.extend([
                row("change feed parts", of.parts as u64, of.lag),
                row("parts failing", of.failing as u64, None),
            ]);
        }
        rows
    }
}

impl fmt::Display for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&table(&["QUEUE", "COUNT", "OLDEST"], &self.rows()))?;
        let queues = self.orchestrations.iter();
        for (queues, busy) in queues.flat_map(|of| of.busy.iter().map(move |busy| (of, busy))) {
            writeln!(f, "{}", running::described(busy, queues.now))?;
        }
        let limited = self
            .orchestrations
            .iter()
            .filter_map(|of| of.limited.as_ref());
        for limited in limited {
            Keys(limited).fmt(f)?;
        }
        Ok(())
    }
}

/// Formats slots as a table.
pub(crate) fn slot_table(slots: &[DueSlot]) -> String {
    if slots.is_empty() {
        return "no slot has messages due\n".to_owned();
    }
    let rows = slots.iter().map(|slot| {
        vec![
            slot.number.to_string(),
            slot.due.to_string(),
            span(slot.oldest),
        ]
    });
    table(&["SLOT", "DUE", "OLDEST"], &rows.collect::<Vec<_>>())
}
