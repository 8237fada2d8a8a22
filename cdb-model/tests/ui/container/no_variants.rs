//! A container without types cannot be written or read.

include!("../declaration.rs");

#[derive(Container)]
#[container(partition_key = "/customer")]
enum Shop {}
