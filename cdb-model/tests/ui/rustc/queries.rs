//! A query uses a path as its index and its type allow.

include!("../paths.rs");

fn main() {
    // A filter without an index would read every document, and the service refuses such a sort.
    let _ = Order::COMMENT.eq("open");
    let _ = Order::COMMENT.desc();
    // No index serves comparisons of whole vectors.
    let _ = Note::MEANING.eq(vec![1.0, 2.0, 3.0]);
    // Only an `Option` can be `None`.
    let _ = Order::NUMBER.is_none();
    // Only arrays have elements, and those are of the array's type.
    let _ = Order::STATUS.contains_any(["open"]);
    let _ = Order::TAGS.contains(7_u64);
    // `contains` searches in strings and arrays, and only strings have a suffix.
    let _ = Order::NUMBER.contains("7");
    let _ = Order::NUMBER.ends_with("7");
    // Arrays have no minimum and maximum, and only numbers have a sum and an average.
    let _ = Query::<Order>::across_partitions().min(Order::TAGS);
    let _ = Query::<Order>::across_partitions().sum(Order::STATUS);
    // Vectors are compared with vectors.
    let _ = Note::BODY.nearest("a");
    let _ = Note::MEANING.nearest("a");
    // Words are found by a full-text index only.
    let _ = Note::BODY.ranked(["a"]);
}
