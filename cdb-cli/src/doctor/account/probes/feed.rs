//! The change feed. Source: change-feed-modes.md, "Latest version mode"; azure_data_cosmos 1.1.0-beta.1,
//! `cosmos_change_feed.rs`.

use cdb_client::feed::{ChangeFeed, FeedStart};
use cdb_model::Document as _;

use crate::doctor::account::answer::{Answer, Failure, Outcome};
use crate::doctor::account::check::{Check, wait};
use crate::doctor::account::samples::{Checked, Sample};

/// Room for the imprecision that `FeedStart::Since` states. The start is exclusive (azure-cosmos-dotnet,
/// `ChangeFeedOptions.StartTime`).
const PRECISION: u64 = 5;

/// Writes a document of the probe `of`.
async fn write(check: &Check, of: &str, name: &str) -> Result<(), Failure> {
    let sample = Sample {
        group: of.to_owned(),
        ..Sample::new(of, name)
    };
    check.container()?.run(sample.upsert()).await?;
    Ok(())
}

/// Reads to the end of the feed. Returns the names of the documents of the probe `of`.
async fn rest(feed: &mut ChangeFeed<Checked>, of: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    loop {
        let changes = feed.next_changes().await?;
        if changes.is_empty() {
            return Ok(names);
        }
        let samples = changes.into_iter().filter_map(|row| match row.document {
            Checked::Sample(sample) if sample.group == of => Some(sample.name),
            _ => None,
        });
        names.extend(samples);
    }
}

fn answer(found: &[String], expected: &[&str]) -> Answer {
    let holds = found == expected;
    Answer::when(holds, format!("returned: {}", found.join(", ")))
}

/// A changed document is at the place of its last change.
pub(super) async fn from_beginning(check: &Check) -> Outcome {
    for name in ["a", "b", "c", "a"] {
        write(check, "beginning", name).await?;
    }
    let feed = check.container()?.change_feed(FeedStart::Beginning);
    let found = rest(&mut feed.page_size(50), "beginning").await?;
    Ok(answer(&found, &["b", "c", "a"]))
}

pub(super) async fn from_now(check: &Check) -> Outcome {
    write(check, "now", "earlier").await?;
    let mut feed = check.container()?.change_feed(FeedStart::Now);
    let before = rest(&mut feed, "now").await?;
    write(check, "now", "later").await?;
    let found = [before, rest(&mut feed, "now").await?].concat();
    Ok(answer(&found, &["later"]))
}

pub(super) async fn since(check: &Check) -> Outcome {
    write(check, "since", "earlier").await?;
    wait(PRECISION + 3).await;
    let start = check.container()?.now();
    wait(2).await;
    write(check, "since", "later").await?;
    let mut feed = check.container()?.change_feed(FeedStart::Since(start));
    let found = rest(&mut feed, "since").await?;
    Ok(answer(&found, &["later"]))
}

pub(super) async fn resumed(check: &Check) -> Outcome {
    let container = check.container()?;
    write(check, "resumed", "first").await?;
    let mut feed = container.change_feed(FeedStart::Beginning);
    let mut found = rest(&mut feed, "resumed").await?;
    let cursor = serde_json::to_string(feed.cursor())?;
    write(check, "resumed", "second").await?;
    let mut feed = container.resume_change_feed(serde_json::from_str(&cursor)?);
    found.extend(rest(&mut feed, "resumed").await?);
    Ok(answer(&found, &["first", "second"]))
}
