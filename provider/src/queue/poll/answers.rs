//! The answers of requests to several physical partitions, of which some may fail.

use crate::error::Result;

/// The number of physical partitions that are queried at a time.
pub(super) const CONCURRENCY: usize = 16;

/// Returns the answers of those partitions that answered, and whether all did.
///
/// # Errors
/// Fails when every partition failed.
pub(crate) fn answered<T>(answers: Vec<Result<T>>) -> Result<(Vec<T>, bool)> {
    let count = answers.len();
    let (mut answered, mut failed) = (Vec::with_capacity(count), None);
    for answer in answers {
        match answer {
            Ok(answer) => answered.push(answer),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if answered.is_empty() => Err(error),
        _ => {
            let is_complete = answered.len() == count;
            Ok((answered, is_complete))
        }
    }
}
