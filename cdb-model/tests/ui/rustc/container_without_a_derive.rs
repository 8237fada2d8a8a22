//! The enum of a container derives `Container`.

include!("../paths.rs");

enum Shop {
    Order(Order),
}

/// A client takes the container as a type, like this function.
fn open<C: Container>() {}

fn main() {
    open::<Shop>();
}
