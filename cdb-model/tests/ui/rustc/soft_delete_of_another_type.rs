//! Only a document type with a field `soft_delete` can be marked as deleted.

include!("../paths.rs");

fn main() {
    let _patch = Patch::<Order>::new().soft_delete(Timestamp::from_secs(1));
}
