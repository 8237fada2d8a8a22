//! Only a document type with a lease can be leased.

include!("../paths.rs");

fn lease<D: Leasable>() {}

fn main() {
    lease::<Order>();
}
