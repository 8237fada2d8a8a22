//! What a rule is, and what it finds.

use crate::history::History;
use crate::read::{Call, Moment};

/// A promise and its check.
pub trait Rule {
    /// The name.
    fn name(&self) -> &'static str;
    /// The promise, in one sentence.
    fn promise(&self) -> &'static str;
    /// Whether the promise is due only when everything has come to rest.
    fn needs_rest(&self) -> bool {
        false
    }
    /// Finds what breaks the promise.
    fn check(&self, history: &History<'_>, found: &mut Found);
}

/// What breaks a promise.
#[derive(Clone, Debug)]
pub struct Anomaly {
    /// The name of the rule.
    pub rule: &'static str,
    /// What happened.
    pub text: String,
    /// The lines that prove it.
    pub proof: Vec<Moment>,
}

/// The anomalies of a rule.
#[derive(Debug, Default)]
pub struct Found {
    pub(crate) all: Vec<(String, Vec<Moment>)>,
}

impl Found {
    pub(crate) fn add(&mut self, text: String, proof: Vec<Moment>) {
        self.all.push((text, proof));
    }

    /// Adds an anomaly that calls prove.
    pub(crate) fn calls(&mut self, text: String, calls: &[&Call]) {
        let proof = calls.iter().map(|call| call.end.unwrap_or(call.begin));
        self.add(text, proof.collect());
    }
}
