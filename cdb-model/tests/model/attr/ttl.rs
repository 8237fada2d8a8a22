//! `ttl` and `default_ttl`: when documents expire.

use cdb_model::container::DefaultTtl;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "session", id = "session")]
struct Session {
    #[document(partition_key)]
    user: String,
    #[document(ttl)]
    ttl: u32,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "user", id = "user")]
struct User {
    #[document(partition_key)]
    user: String,
}

macro_rules! container {
    ($name:ident { $($variant:ident),* } $(, $ttl:tt)?) => {
        #[derive(Container)]
        $(#[container(default_ttl = $ttl)])?
        enum $name {
            $($variant($variant)),*
        }
    };
}

container!(Plain { User });
container!(WithSessions { User, Session });
container!(Hourly { User, Session }, 3600);
container!(Asked { User }, "per_document");
container!(Off { User }, "off");

#[derive(Container)]
enum Extended {
    #[container(extends)]
    Plain(Plain),
    Session(Session),
}

#[test]
fn a_document_with_a_time_to_live_enables_expiry() {
    assert_eq!(Plain::DEFAULT_TTL, DefaultTtl::Off);
    assert_eq!(WithSessions::DEFAULT_TTL, DefaultTtl::PerDocument);
    assert_eq!(Extended::DEFAULT_TTL, DefaultTtl::PerDocument);
    assert_eq!(WithSessions::definition().default_ttl, Some(-1));
}

#[test]
fn an_explicit_default_ttl_is_used() {
    assert_eq!(Hourly::DEFAULT_TTL, DefaultTtl::Seconds(3600));
    assert_eq!(Asked::DEFAULT_TTL, DefaultTtl::PerDocument);
    assert_eq!(Off::definition().default_ttl, None);
}
