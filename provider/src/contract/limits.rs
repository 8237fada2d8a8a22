//! Limits of activities.

use duroxide::providers::ProviderError;

use crate::error::InOperation as _;
use crate::operate::limits::rules;
use crate::provider::CosmosDBProvider;
use crate::stored::documents::{Limits, Rule, Selector};

impl CosmosDBProvider {
    /// Sets a limit of activities for all runtimes of the container, in place of one with the same
    /// selector. Other runtimes learn of it within 10 s; one that opens the container, before it
    /// starts anything. Running activities continue. `by` is the operator, for the record.
    ///
    /// From the first limit on, the container has schema version 3, and from the first one on what runs
    /// or starts, version 4; versions of this crate without them refuse to open it.
    ///
    /// # Errors
    /// Fails when the rule limits nothing, has a value out of its range, or is one more than
    /// [`MAX_RULES`](crate::documents::MAX_RULES).
    ///
    /// ```
    /// use cdb_provider::documents::Rule;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let emulator = cdb_emulator::Emulator::start().await?;
    /// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
    /// // The bank allows ten calls at a time.
    /// store.set_limit(Rule::new("activity=CallBank".parse()?).running(10), "ada").await?;
    /// // During the maintenance of the bank, none.
    /// store.set_limit(Rule::new("activity=CallBank".parse()?).running(0), "ada").await?;
    /// let limits = store.limits().await?.expect("one was set");
    /// assert_eq!((limits.rules.len(), limits.rules[0].running), (1, Some(0)));
    /// store.remove_limit(&"activity=CallBank".parse()?, "ada").await?;
    /// # Ok(()) }
    /// ```
    pub async fn set_limit(&self, rule: Rule, by: &str) -> Result<(), ProviderError> {
        let set = rules::set(&self.services, rule, by);
        set.await.in_operation("set_limit")
    }

    /// Returns the limits as [`set_limit`](Self::set_limit) would leave them, and sets nothing.
    ///
    /// # Errors
    /// As [`set_limit`](Self::set_limit).
    pub async fn plan_set_limit(&self, rule: &Rule) -> Result<Vec<Rule>, ProviderError> {
        let planned = rules::plan_set(&self.services, rule);
        planned.await.in_operation("set_limit")
    }

    /// Removes the limit with this selector.
    ///
    /// # Errors
    /// Fails when there is none; names those that exist.
    pub async fn remove_limit(&self, select: &Selector, by: &str) -> Result<(), ProviderError> {
        let removed = rules::remove(&self.services, select, by);
        removed.await.in_operation("remove_limit")
    }

    /// Returns the limits as [`remove_limit`](Self::remove_limit) would leave them, and removes
    /// nothing.
    ///
    /// # Errors
    /// As [`remove_limit`](Self::remove_limit).
    pub async fn plan_remove_limit(&self, select: &Selector) -> Result<Vec<Rule>, ProviderError> {
        let planned = rules::plan_remove(&self.services, select);
        planned.await.in_operation("remove_limit")
    }

    /// Reads the limits. Returns `None` for a container that never had any. What they hold back at present,
    /// [`Observe::limits`](crate::observe::Observe::limits) tells.
    ///
    /// # Errors
    /// Fails when the request fails.
    pub async fn limits(&self) -> Result<Option<Limits>, ProviderError> {
        let read = rules::read(self.services.container()).await;
        let read = read.in_operation("limits")?;
        Ok(read.map(|stored| stored.document))
    }
}
