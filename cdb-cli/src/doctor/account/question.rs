//! A question.

use futures::future::LocalBoxFuture;

use super::answer::Outcome;
use super::check::Check;

pub(crate) type Ask = for<'a> fn(&'a Check) -> LocalBoxFuture<'a, Outcome>;

/// A question to an account.
#[derive(Debug)]
#[non_exhaustive]
pub struct Probe {
    /// Its name, by which a run selects it.
    pub name: &'static str,
    /// The question.
    pub question: &'static str,
    /// The files that rely on the answer.
    pub relied_on_by: &'static [&'static str],
    /// Whether correctness depends on the answer. Otherwise costs, latency or an error text do.
    pub is_required: bool,
    pub(super) ask: Ask,
}
