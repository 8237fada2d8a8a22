//! Panics of handlers as errors.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

/// Runs a handler.
///
/// # Errors
/// The text of a panic. State that the handler shares with other calls may be inconsistent then.
pub async fn catch_panic<T>(handler: impl Future<Output = T>) -> Result<T, String> {
    let result = AssertUnwindSafe(handler).catch_unwind().await;
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "no panic message".to_owned());
        format!("the handler panicked: {text}")
    })
}
