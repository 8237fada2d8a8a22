//! The union of what the document types ask for, in a fixed order.

use crate::container::Container;
use crate::policy::IndexingPolicy;

impl IndexingPolicy {
    /// The policy of container `C`.
    pub fn of<C: Container>() -> Self {
        let _documents = C::DOCUMENTS;
        unreachable!("written by the policy part")
    }
}
