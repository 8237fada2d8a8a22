//! Faults as a file holds them, and as the admin route takes them.

use serde::{Deserialize, Serialize};

use super::{Fault, Latency};

/// Changes of the faults of an emulator: what is named is set, the faults are added to those that are there.
///
/// ```
/// let plan: cdb_emulator::FaultPlan = serde_json::from_str(
///     r#"{ "seed": 7, "latency": { "fixedMs": 2 }, "faults": [{ "effects": ["dropAnswer"], "probability": 0.1 }] }"#,
/// )?;
/// # assert_eq!(plan.faults.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// Starts all draws anew from this seed.
    pub seed: Option<u64>,
    /// The latency of every request.
    pub latency: Option<Latency>,
    /// The faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

impl FaultPlan {
    /// Says what is wrong with a plan that cannot be carried out.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(latency) = &self.latency {
            latency.check()?;
        }
        for (at, fault) in self.faults.iter().enumerate() {
            let refuse = |reason| format!("faults[{at}]: {reason}");
            fault.check().map_err(refuse)?;
        }
        Ok(())
    }
}
