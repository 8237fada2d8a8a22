//! Calls accept only types that have what they need.

include!("../paths.rs");

#[derive(Container)]
enum Desk {
    Note(Note),
}

/// The enum of a container derives `Container`.
enum Shop {
    Order(Order),
}

/// A client takes the container as a type, like this function.
fn open<C: Container>() {}

fn lease<D: Leasable>() {}

fn main() {
    open::<Shop>();
    // Only a document type with a lease can be leased.
    lease::<Order>();
    // A container stores only its own types.
    let order: Order = todo!();
    let _ = Batch::<Desk>::new("c").add(order.create());
}
