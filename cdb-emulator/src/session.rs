//! Session tokens: how far each physical partition has come, and whether it has come as far as a reader has seen.
//!
//! A token is `{range}:{version}#{global LSN}#{region}={local LSN}…`, or `{range}:{LSN}` in its older form; several are
//! joined by commas. Every acknowledged write is seen here at once, so only a token from a log that is not ours (another
//! account, data that were deleted) is ahead of us: the service answers such a read with 404/1002.

use http::HeaderMap;

use crate::error::ServiceError;
use crate::route::header;
use crate::store::ranges::PhysicalRange;

/// The token of some physical partitions that have come this far.
pub(crate) fn token<'a>(ranges: impl IntoIterator<Item = &'a PhysicalRange>, lsn: i64) -> String {
    let tokens = ranges
        .into_iter()
        .map(|range| format!("{}:-1#{lsn}", range.id));
    tokens.collect::<Vec<_>>().join(",")
}

/// Refuses a token that is none, and a consistency stronger than the account's, which is Session.
pub(crate) fn check_form(headers: &HeaderMap) -> Result<(), ServiceError> {
    seen(headers).map(|_| ())
}

/// Refuses a read of these physical partitions when the reader has seen more of them than there is.
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

/// What a reader has seen of each range; nothing when the request asks for less than session consistency.
fn seen(headers: &HeaderMap) -> Result<Vec<(&str, i64)>, ServiceError> {
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
    fn tokens_are_read_in_all_their_forms_and_nothing_else_is() {
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
