//! Checks of the messages and changes whose handlers fail, and of the streams that wait behind them.

use std::time::Duration;

use super::finding::Finding;
use crate::container::Holdings;
use crate::exit::Failure;
use crate::model::messages::{List, MessageRow, MessageSource, Source, Step};
use crate::output::{counted, short, span};
use crate::view::messages::change_feed::{self, PartRow};

/// The maximum number of reported parts of change feeds.
const MAX_PARTS: usize = 10;

pub(super) async fn examine(holdings: &Holdings) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for source in &holdings.messages.sources {
        findings.extend(messages(&**source).await?);
    }
    if holdings.feeds.is_some() {
        let parts = change_feed::read(holdings).await?.parts;
        findings.extend(feeds(&parts));
    }
    Ok(findings)
}

async fn messages(source: &dyn MessageSource) -> Result<Vec<Finding>, Failure> {
    let kind = source.source();
    // An intent is undelivered for a moment after every turn: its age is checked, with the queues.
    let is_checked = |step: &&Step| (kind, **step) != (Source::Instances, Step::Delivery);
    let retrying = source
        .steps()
        .iter()
        .filter(is_checked)
        .map(|step| List::Retrying(*step));
    let mut findings = Vec::new();
    for list in std::iter::once(List::Dead).chain(retrying) {
        let count = source.count(list).await?;
        if count > 0 {
            // A page leaves unreadable messages out.
            let first = source.page(list, 1, None).await?.rows.into_iter().next();
            findings.push(failed(kind, list, count, first.as_ref()));
        }
    }
    if findings.is_empty() {
        let retried = match kind {
            Source::Instances => "",
            Source::Partitions | Source::Work => " or retried",
        };
        let says = format!("no message {} is dead{retried}", kind.place());
        findings.push(Finding::ok("messages", says));
    }
    Ok(findings)
}

/// Reports the messages of a list, with the error of its first one.
fn failed(kind: Source, list: List, count: u64, first: Option<&MessageRow>) -> Finding {
    let messages = format!("{} {}", counted(count, "message"), kind.place());
    let waits = match count {
        _ if !first.is_some_and(|first| first.blocks_stream) => "",
        1 => ", and its stream waits",
        _ => ", and their streams wait",
    };
    let example = first.map(|first| format!("; for example: {}", short(&first.reason, 200)));
    let example = example.unwrap_or_default();
    match list {
        List::Dead => Finding::problem(
            "messages",
            format!("dead, until redriven or discarded: {messages}{waits}{example}"),
            "run {cdb} messages list --state dead for the reasons, fix the cause, then run {cdb} messages redrive; {cdb} messages discard gives messages up",
        ),
        List::Retrying(Step::Delivery) => Finding::warning(
            "messages",
            format!("{messages} cannot be delivered{example}"),
            "run {cdb} messages list --state retrying for the errors and fix the cause; a refused message is dead after its last attempt",
        ),
        List::Retrying(Step::Handling) => Finding::warning(
            "messages",
            format!("the handlers of {messages} fail{waits}{example}"),
            "run {cdb} messages list --state retrying for the errors and fix the handler; a message is dead after its last attempt",
        ),
    }
}

fn feeds(parts: &[PartRow]) -> Vec<Finding> {
    let failing = |part: &&PartRow| part.failure.is_some() || part.reader.is_none();
    let failing: Vec<&PartRow> = parts.iter().filter(failing).collect();
    if failing.is_empty() {
        let unknown = parts.iter().filter(|part| part.lag.is_none()).count();
        let known = parts.iter().filter_map(|part| part.lag).max();
        let known = known.or((unknown == 0).then_some(Duration::ZERO));
        let mut lags: Vec<String> = known.map(span).into_iter().collect();
        if unknown > 0 {
            lags.push(format!("unknown of {}", counted(unknown as u64, "part")));
        }
        let says = format!(
            "{} of change feeds read, lag {}",
            counted(parts.len() as u64, "part"),
            lags.join(", ")
        );
        return vec![Finding::ok("changefeed", says)];
    }
    let findings = failing.into_iter().take(MAX_PARTS).map(|part| {
        let what = format!("part {} of `{}`", part.part, part.processor);
        let lag = part.lag.map(|lag| format!(", lag {}", span(lag)));
        let lag = lag.unwrap_or_default();
        match &part.failure {
            Some(failure) => Finding::warning(
                "changefeed",
                format!(
                    "{what} waits after {}{lag}: {}",
                    counted(u64::from(failure.attempts), "failed attempt"),
                    short(&failure.reason, 200)
                ),
                "fix the handler, or let it store the change elsewhere and return `Ok`; {cdb} change-feed lists the parts",
            ),
            None => Finding::warning(
                "changefeed",
                format!("no process reads {what}{lag}"),
                "start a process that runs the processor; a stopped processor continues at its position",
            ),
        }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_lag_is_not_reported_as_none() {
        let part = |seconds: Option<u64>| PartRow {
            processor: "invoices".to_owned(),
            part: "-FF".to_owned(),
            source: None,
            reader: Some("a".to_owned()),
            lag: seconds.map(Duration::from_secs),
            failure: None,
        };
        for (lags, says) in [
            (&[Some(0), Some(3)][..], "lag 3 s"),
            (&[Some(3), None], "lag 3 s, unknown of 1 part"),
            (&[None, None], "lag unknown of 2 parts"),
            (&[], "lag 0 ms"),
        ] {
            let parts: Vec<PartRow> = lags.iter().copied().map(part).collect();
            let found = feeds(&parts).remove(0);
            assert!(found.says.ends_with(says), "{}", found.says);
        }
    }
}
