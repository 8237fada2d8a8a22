//! The rules, a module for each group.

mod effects;
mod inputs;
mod lists;
mod locks;
mod results;
mod turns;

use crate::rule::Rule;

/// Returns all rules.
pub fn rules() -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(turns::Turns),
        Box::new(turns::Histories),
        Box::new(turns::Ends),
        Box::new(turns::Failures),
        Box::new(inputs::Starts),
        Box::new(inputs::Queued),
        Box::new(inputs::Arrivals),
        Box::new(inputs::Raised),
        Box::new(inputs::Carried),
        Box::new(inputs::Timers),
        Box::new(results::Activities),
        Box::new(results::Attempts),
        Box::new(results::Children),
        Box::new(results::Statuses),
        Box::new(locks::Locks),
        Box::new(lists::Lists),
        Box::new(lists::Cycles),
        Box::new(effects::Leases),
        Box::new(effects::Streams),
        Box::new(effects::Entries),
        Box::new(effects::Messages),
    ]
}

/// Implements the parts of a rule that are text.
macro_rules! rule {
    ($rule:ident, $name:literal, $promise:literal, $check:ident $(, at_rest = $rest:literal)?) => {
        #[doc = $promise]
        #[derive(Debug)]
        pub(crate) struct $rule;

        impl $crate::rule::Rule for $rule {
            fn name(&self) -> &'static str {
                $name
            }
            fn promise(&self) -> &'static str {
                $promise
            }
            $(fn needs_rest(&self) -> bool {
                $rest
            })?
            fn check(&self, history: &$crate::history::History<'_>, found: &mut $crate::rule::Found) {
                $check(history, found);
            }
        }
    };
}
use rule;
