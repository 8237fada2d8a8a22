//! A patch changes stored fields that may change, to values of their type.

include!("../paths.rs");

fn main() {
    // An array takes elements of its own type, and only arrays take further elements.
    let _ = Patch::<Order>::new().append(Order::TAGS, 7_u64);
    let _ = Patch::<Order>::new().append(Order::STATUS, "open".to_owned());
    // A document without a required field would be unreadable, and a value keeps its type.
    let _ = Patch::<Order>::new().move_to(Order::STATUS, Order::NOTE);
    let _ = Patch::<Order>::new().move_to(Order::NOTE, Order::DUE);
    // A computed property is not stored.
    let _ = Patch::<Note>::new().set(Note::TITLE_LOWER, "a");
    // Ids and partition keys never change, and a patch sets the time of the last write itself.
    let _ = Patch::<Order>::new().set(Order::NUMBER, 2);
    let _ = Patch::<Order>::new().set(Order::UPDATED_AT, None);
    // Only a document type with a field `soft_delete` can be marked as deleted.
    let _ = Patch::<Order>::new().soft_delete(Timestamp::from_secs(1));
}
