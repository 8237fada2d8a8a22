//! Whether a request may be sent again.

/// Whether a request may be sent again after an unknown outcome.
///
/// The official clients disagree on writes: azure_data_cosmos_driver repeats them, azure-cosmos for
/// Python and for .NET do not by default. This client repeats a write only if
/// its second execution has the same result as its first: an upsert, replace or delete without
/// ETag. It does not repeat a create or a conditional write: after a first execution, the second
/// fails with 409, 412 or 404, and the caller could not distinguish that from a real refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A second execution has the same result.
    Always,
    /// Only if the service certainly did not execute the request.
    IfNotExecuted,
}
