//! The change feed of a container: its rows, and the position of a reader.

mod change_feed;
mod cursor;
mod row;

pub use change_feed::{ChangeFeed, FeedPage};
pub use cursor::{FeedCursor, FeedStart};
pub use row::{Change, ChangeRow, FeedRow, VersionRow};
