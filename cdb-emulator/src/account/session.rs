//! Session tokens: the LSN of each physical partition, and the check of the LSN that a reader has
//! seen.
//!
//! A token is `{range}:{version}#{global LSN}#{region}={local LSN}…`, or `{range}:{LSN}` in its
//! older form; commas separate several tokens. One replica has every acknowledged write, so only a
//! token of another log (another account, or deleted data) is ahead of the data. The service
//! responds to such a read with 404/1002.

use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::protocol::{ServiceError, header};
use crate::store::PhysicalRange;

/// The default consistency of the account. Stronger levels than Session are not simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Consistency {
    /// A reader with a session token sees at least the state of that token.
    #[default]
    Session,
    /// Session tokens are ignored.
    ConsistentPrefix,
    /// Session tokens are ignored.
    Eventual,
}

impl Consistency {
    /// Source: azure_data_cosmos_driver, `ReadConsistencyStrategy::is_session_effective`.
    pub(crate) fn ignores_sessions(self) -> bool {
        self != Self::Session
    }
}

/// Returns the token of physical partitions at an LSN.
pub(crate) fn token<'a>(ranges: impl IntoIterator<Item = &'a PhysicalRange>, lsn: i64) -> String {
    let tokens = ranges
        .into_iter()
        .map(|range| format!("{}:-1#{lsn}", range.id));
    tokens.collect::<Vec<_>>().join(",")
}

/// Rejects an invalid token, and a consistency level stronger than that of the account (Session).
pub(crate) fn check_form(headers: &HeaderMap) -> Result<(), ServiceError> {
    seen(headers).map(|_| ())
}

/// Rejects a read of physical partitions if its session token is ahead of the data.
pub(crate) fn check<'a>(
    headers: &HeaderMap,
    ranges: impl IntoIterator<Item = &'a PhysicalRange>,
    last: i64,
) -> Result<(), ServiceError> {
    let seen = seen(headers)?;
    let ahead = ranges.into_iter().any(|range| {
        seen.iter()
            .any(|(id, lsn)| *lsn > last && range.descends_from(id))
    });
    if ahead {
        return Err(ServiceError::new(
            404,
            1002,
            "NotFound",
            "The read session is not available for the input session token.",
        ));
    }
    Ok(())
}

/// Returns the highest LSN that a reader has seen of physical partitions; 0 for none.
pub(crate) fn seen_of(headers: &HeaderMap, ranges: &[&PhysicalRange]) -> Result<i64, ServiceError> {
    let seen = seen(headers)?.into_iter();
    let here = seen.filter(|(id, _)| ranges.iter().any(|range| range.descends_from(id)));
    Ok(here.map(|(_, lsn)| lsn).max().unwrap_or_default())
}

/// Returns whether a read asks for the latest committed state instead of that of any replica.
pub(crate) fn is_latest_committed(headers: &HeaderMap) -> bool {
    let strategy = header(headers, "x-ms-cosmos-read-consistency-strategy");
    strategy.is_some_and(|strategy| matches!(strategy, "LatestCommitted" | "GlobalStrong"))
}

/// Returns the LSN that a reader has seen of each range; empty for a weaker consistency level than
/// Session.
fn seen(headers: &HeaderMap) -> Result<Vec<(&str, i64)>, ServiceError> {
    if header(headers, "x-ms-cosmos-read-consistency-strategy") == Some("Eventual") {
        return Ok(Vec::new());
    }
    match header(headers, "x-ms-consistency-level") {
        Some("Eventual" | "ConsistentPrefix") => return Ok(Vec::new()),
        None | Some("" | "Session") => {}
        Some(level @ ("Strong" | "BoundedStaleness" | "Bounded")) => {
            return Err(ServiceError::bad_request(format!(
                "ConsistencyLevel {level} specified in the request is invalid when service is configured with \
                 consistency level Session. Ensure the request consistency level is not stronger than the service \
                 consistency level."
            )));
        }
        Some(level) => {
            return Err(ServiceError::bad_request(format!(
                "The value '{level}' specified for the header 'x-ms-consistency-level' is invalid."
            )));
        }
    }
    let Some(text) = header(headers, "x-ms-session-token") else {
        return Ok(Vec::new());
    };
    text.split(',')
        .filter(|part| !part.trim().is_empty())
        .map(|part| {
            parse(part.trim()).ok_or_else(|| {
                ServiceError::bad_request(format!(
                    "The session token provided '{text}' is invalid."
                ))
            })
        })
        .collect()
}

fn parse(token: &str) -> Option<(&str, i64)> {
    let (range, progress) = token.split_once(':')?;
    range.parse::<u64>().ok()?;
    let mut parts = progress.split('#');
    let first = parts.next()?.parse().ok()?;
    let Some(global) = parts.next() else {
        return Some((range, first));
    };
    for region in parts {
        let (region, local) = region.split_once('=')?;
        region.parse::<u64>().ok()?;
        local.parse::<i64>().ok()?;
    }
    Some((range, global.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_forms_of_tokens_are_accepted() {
        for (token, read) in [
            ("0:12", Some(("0", 12))),
            ("0:-1#12", Some(("0", 12))),
            ("3:1#-1#0=-1#5=7", Some(("3", -1))),
            ("0", None),
            (":1", None),
            ("0:", None),
            ("x:1", None),
            ("0:1#", None),
            ("0:1#2#3", None),
            ("0:1#2#a=3", None),
        ] {
            assert_eq!(parse(token), read, "{token}");
        }
    }
}
