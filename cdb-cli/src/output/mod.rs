//! What a run prints: answers as text or JSON, and the forms of their parts.

mod color;
mod console;
mod table;
mod time;

pub(crate) use color::Terminal;
pub(crate) use console::Console;
pub(crate) use table::{MORE, counted, short, table};
pub(crate) use time::{milliseconds, span};
