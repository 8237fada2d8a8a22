//! The confirmation of a change: a code for the call and for the plan that its dry run showed.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::sync::PoisonError;

use serde_json::Value;

/// The members of plans that change while nothing happens to what is planned.
const VOLATILE: [&str; 6] = [
    "customStatus",
    "execution",
    "indexingProgress",
    "now",
    "requestUnits",
    "updatedAt",
];

/// The codes of a server. A code cannot be guessed, is good for one change, and for no other plan.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// Has random keys.
    state: RandomState,
    /// The number of changes by the same command line.
    done: Mutex<HashMap<Vec<String>, u64>>,
}

impl Confirmations {
    /// Returns the code of a command line with its plan.
    pub(super) fn code(&self, line: &[String], plan: &Value) -> String {
        let mut plan = plan.clone();
        remove_volatile(&mut plan);
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let times = done.get(line).copied().unwrap_or_default();
        let hash = self.state.hash_one((line, plan.to_string(), times));
        format!("{hash:016x}")
    }

    /// Makes the code of a command line invalid, before its change.
    pub(super) fn use_up(&self, line: &[String]) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done.entry(line.to_vec()).or_default() += 1;
    }
}

fn remove_volatile(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !VOLATILE.contains(&&**name));
            members.values_mut().for_each(remove_volatile);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_volatile),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_code_is_good_for_one_change_of_one_plan() {
        let codes = Confirmations::default();
        let line = ["instances", "cancel", "a"].map(str::to_owned);
        let plan = |status: &str, now: u64| json!({ "count": 1, "instances": [{ "status": status, "updatedAt": now }], "now": now, "indexingProgress": now });
        let code = codes.code(&line, &plan("Running", 1));
        assert_eq!(code, codes.code(&line, &plan("Running", 2)));
        assert_ne!(code, codes.code(&line, &plan("Failed", 1)));
        assert_ne!(code, codes.code(&line[..2], &plan("Running", 1)));
        assert_ne!(
            code,
            Confirmations::default().code(&line, &plan("Running", 1))
        );
        codes.use_up(&line);
        assert_ne!(code, codes.code(&line, &plan("Running", 1)));
    }
}
