//! Which conditions of a query the indexes of the policy answer, and which are evaluated on loaded
//! documents.

use serde::{Deserialize, Serialize};

use crate::plan::is_served;
use crate::sql::ast::{Binary, Expr, Select};
use crate::store::Policy;

/// The plan of a query, in lines of text.
#[derive(Debug, Default, Serialize)]
pub(super) struct Plan {
    /// Conditions that an index answers.
    served: Vec<String>,
    /// Conditions that are evaluated on documents, which have to be loaded.
    left: Vec<String>,
    /// The sort. An index serves it; otherwise the query would have been rejected.
    sort: Vec<String>,
    /// The indexes that the query uses.
    used: Vec<String>,
    /// The indexes that the query could use if the policy had them.
    missing: Vec<String>,
}

/// The service's report on the use of indexes. Shape: .NET client, `IndexUtilizationInfo`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    #[serde(rename = "UtilizedSingleIndexes")]
    used: Vec<Single>,
    #[serde(rename = "UtilizedCompositeIndexes")]
    used_composites: Vec<Composite>,
    #[serde(rename = "PotentialSingleIndexes")]
    missing: Vec<Single>,
    #[serde(rename = "PotentialCompositeIndexes")]
    missing_composites: Vec<Composite>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Single {
    index_spec: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Composite {
    index_specs: Vec<String>,
}

impl Plan {
    /// Returns the plan of a query under a policy, with the service's report.
    pub(super) fn of(select: &Select, policy: &Policy, report: &Report) -> Self {
        let mut plan = Self {
            used: lines(&report.used, &report.used_composites),
            missing: lines(&report.missing, &report.missing_composites),
            ..Self::default()
        };
        if let Some(filter) = &select.filter {
            plan.classify(filter, select, policy);
        }
        for key in &select.order_by {
            let direction = if key.descending { "DESC" } else { "ASC" };
            plan.sort.push(format!("{} {direction}", key.expr));
        }
        plan
    }

    /// Splits a filter into its conjuncts and classifies each.
    fn classify(&mut self, expr: &Expr, select: &Select, policy: &Policy) {
        if let Expr::Binary(left, Binary::And, right) = expr {
            self.classify(left, select, policy);
            self.classify(right, select, policy);
        } else if is_served(expr, select, policy) {
            self.served.push(expr.to_string());
        } else {
            self.left.push(expr.to_string());
        }
    }
}

fn lines(singles: &[Single], composites: &[Composite]) -> Vec<String> {
    let singles = singles.iter().map(|single| single.index_spec.clone());
    let composites = composites
        .iter()
        .map(|composite| format!("composite ({})", composite.index_specs.join(", ")));
    singles.chain(composites).collect()
}
