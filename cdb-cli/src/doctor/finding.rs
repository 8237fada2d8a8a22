//! The result of a check, with its remedy.

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Level {
    Ok,
    Warning,
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub check: &'static str,
    pub level: Level,
    pub says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            says: says.into(),
            remedy: None,
        }
    }

    /// Creates a finding that only the user can judge.
    pub(super) fn note(
        check: &'static str,
        says: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..Self::ok(check, says)
        }
    }

    pub(super) fn warning(
        check: &'static str,
        says: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            ..Self::note(check, says, remedy)
        }
    }

    pub(super) fn problem(
        check: &'static str,
        says: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Problem,
            ..Self::warning(check, says, remedy)
        }
    }
}
