//! The rules of the container: read by runtimes, changed by operators.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Document as _, Stored};

use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{
    Durable, LIMITS_PARTITION, Limits, LimitsKey, MAX_RULES, OperatorAction, Rule, Selector,
};
use crate::stored::schema::{self, Uses};

/// How often a change is tried again when another operator was faster.
const MAX_ATTEMPTS: u32 = 10;

/// Reads the rules. Returns `None` for a container that never had any.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
) -> cdb_client::Result<Option<Stored<Limits>>> {
    let key = LimitsKey::new(LIMITS_PARTITION);
    container.latest_committed().read(&key).await
}

/// Sets the rule of a selector, in place of an earlier one.
pub(crate) async fn set(services: &Services, rule: Rule, by: &str) -> Result<()> {
    check(&rule)?;
    // Runtimes that open the container later read its rules before they start anything.
    let uses = if rule.is_cap() {
        Uses::Permits
    } else {
        Uses::Limits
    };
    schema::note(services.container(), uses).await?;
    let what = format!("set the limit of `{}`", rule.select);
    change(services, by, what, |rules| put(rules, &rule)).await
}

/// Returns the rules as [`set`] would leave them.
pub(crate) async fn plan_set(services: &Services, rule: &Rule) -> Result<Vec<Rule>> {
    check(rule)?;
    schema::check_before_limits(services.container()).await?;
    plan(services, |rules| put(rules, rule)).await
}

/// Removes the rule of a selector.
pub(crate) async fn remove(services: &Services, selector: &Selector, by: &str) -> Result<()> {
    let what = format!("removed the limit of `{selector}`");
    change(services, by, what, |rules| take(rules, selector)).await
}

/// Returns the rules as [`remove`] would leave them.
pub(crate) async fn plan_remove(services: &Services, selector: &Selector) -> Result<Vec<Rule>> {
    plan(services, |rules| take(rules, selector)).await
}

fn check(rule: &Rule) -> Result<()> {
    rule.check()
        .map_err(|error| Error::Refused(error.to_string()))
}

fn put(rules: &mut Vec<Rule>, rule: &Rule) -> Result<()> {
    rules.retain(|other| other.select != rule.select);
    rules.push(rule.clone());
    if rules.len() > MAX_RULES {
        return Err(Error::Refused(format!(
            "a container has at most {MAX_RULES} limits; remove one, or use a limit for each value, as `tenant=*`"
        )));
    }
    rules.sort_by_key(|rule| rule.select.place());
    Ok(())
}

fn take(rules: &mut Vec<Rule>, selector: &Selector) -> Result<()> {
    let count = rules.len();
    rules.retain(|rule| rule.select != *selector);
    if rules.len() < count {
        return Ok(());
    }
    let others: Vec<_> = rules
        .iter()
        .map(|rule| format!("`{}`", rule.select))
        .collect();
    let others = if others.is_empty() {
        "the container has no limits".to_owned()
    } else {
        format!("the container has limits of {}", others.join(", "))
    };
    Err(Error::Refused(format!(
        "there is no limit of `{selector}`; {others}"
    )))
}

async fn plan(
    services: &Services,
    change: impl FnOnce(&mut Vec<Rule>) -> Result<()>,
) -> Result<Vec<Rule>> {
    let before = read(services.container()).await?;
    let mut rules = before.map_or_else(Vec::new, |before| before.document.rules);
    change(&mut rules)?;
    Ok(rules)
}

async fn change(
    services: &Services,
    by: &str,
    what: String,
    change: impl Fn(&mut Vec<Rule>) -> Result<()>,
) -> Result<()> {
    for _ in 0..MAX_ATTEMPTS {
        let before = read(services.container()).await?;
        let mut rules = before
            .as_ref()
            .map_or_else(Vec::new, |before| before.document.rules.clone());
        change(&mut rules)?;
        let now = services.store.now();
        // Later than the last change, by any clock: runtimes look for a later one.
        let last = before.as_ref().map(|before| before.document.visible_at);
        let limits = Limits {
            instance_id: LIMITS_PARTITION.to_owned(),
            visible_at: last.map_or(now, |last| now.max(last + Duration::from_millis(1))),
            rules,
            changed: OperatorAction {
                at: now,
                by: by.to_owned(),
                what: what.clone(),
            },
        };
        let container = services.container();
        let written = match &before {
            Some(before) => container.run(limits.replace().if_match(&before.etag)).await,
            None => container.run(limits.create()).await,
        };
        match written {
            Ok(_) => {
                services.queues.apply_limits(&limits);
                return Ok(());
            }
            Err(error) if error.is_precondition_failed() || error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Retryable(
        "other operators change the limits at the same time; try again".to_owned(),
    ))
}
