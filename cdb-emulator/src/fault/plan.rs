//! The JSON form of faults, for files and for the admin route.

use serde::{Deserialize, Serialize};

use super::definition::Fault;
use super::latency::Latency;

/// Changes of the faults of an emulator. Present fields are set; the faults are added to the active
/// ones.
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
    /// Restarts the random numbers of all faults from this seed.
    pub seed: Option<u64>,
    /// The latency of every request.
    pub latency: Option<Latency>,
    /// The faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

impl FaultPlan {
    /// Fails with the reason if a fault or the latency is invalid.
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
