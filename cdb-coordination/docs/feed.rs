// The containers of the examples of change-feed processors.
include!("shop.rs");
include!("with_feed.rs");
