//! `or_skip!`, for the suites that also run on an account. They include this file by its path, like `ok.rs`.

/// The value of an option. Ends the test without it, for example on an account, which injects no faults.
macro_rules! or_skip {
    ($needed:expr) => {{
        let Some(needed) = $needed else { return };
        needed
    }};
    ($needed:expr, $reason:literal) => {{
        let Some(needed) = $needed else {
            println!("skipped: {}", $reason);
            return;
        };
        needed
    }};
}
