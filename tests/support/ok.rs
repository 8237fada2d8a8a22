//! `ok!`, for the suites of all crates: they include this file by its path, because a macro of a test cannot be
//! imported from another crate without publishing it.

/// The value of a call that succeeds.
macro_rules! ok {
    ($call:expr) => {
        match $call.await {
            Ok(value) => value,
            Err(error) => panic!("{}: {error:?}", stringify!($call)),
        }
    };
}
