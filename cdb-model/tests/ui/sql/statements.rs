//! A statement has clauses, names its documents, and names paths in conditions and sorts.

include!("../paths.rs");

fn main() {
    let _ = sql!("");
    let _ = sql!("DELETE FROM {Order}");
    let _ = sql!("SELECT * FROM c");
    let _ = sql!("SELECT * FROM {Order} o");
    let _ = sql!("SELECT * WHERE {Order::STATUS} = 'open' FROM {Order}");
    // No index is known for a property, and none for a sort by an expression.
    let _ = sql!("SELECT * FROM {Order} WHERE c.status = 'open'");
    let _ = sql!("SELECT * FROM {Order} ORDER BY LOWER({Order::STATUS})");
    let _ = sql!("SELECT * FROM {Order} ORDER BY {Order::STATUS}, {Order::NUMBER}");
    let _ = sql!("SELECT * FROM {Order} OFFSET 10 LIMIT 5");
    // The service refuses both in a sub-query.
    let _ = sql!("SELECT ARRAY(SELECT VALUE t FROM t IN c.tags ORDER BY t) AS tags FROM {Order}");
    let _ = sql!("SELECT * FROM {Order} WHERE EXISTS(SELECT t FROM t IN c.tags OFFSET 1 LIMIT 1)");
    // Values are Rust.
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::STATUS} = {}");
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::STATUS} = {status");
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::STATUS} = @status");
    let _ = sql!("SELECT * FROM {Order} WHERE {Order::STATUS} = 'open");
    // The client merges columns with names.
    let _ = sql!("SELECT FROM {Order}");
    let _ = sql!("SELECT {Order::NUMBER} + 1 FROM {Order}");
    let _ = sql!("SELECT {Order::STATUS}, COUNT(1) AS orders FROM {Order}");
    let _ = sql!("SELECT SUM({Order::NUMBER}) / 2 AS half FROM {Order}");
    let _ = sql!("SELECT c.price * c.quantity FROM {Order}");
    let _ = sql!("SELECT c.number, COUNT(1) AS number FROM {Order} GROUP BY c.number");
    let _ = sql!("SELECT * FROM {Order} -- all of them");
    let _ = sql!("SELECT * FROM {Order}" => Order);
    let _ = sql!("SELECT DISTINCT {Order::STATUS} FROM {Order} ORDER BY {Order::STATUS}");
}
