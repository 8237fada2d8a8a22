//! `/_explorer/`: what is in the account, and what a query costs, in a browser on this machine.
//!
//! A page of plain HTML, served with its script and style from the program itself, over two typed endpoints. It reads
//! only: queries go the way of every client's, but need no signature and meet no faults.

mod ask;
mod plan;
mod routes;
mod tree;

pub(crate) use routes::answer;
