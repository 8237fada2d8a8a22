//! The suites, in one binary: every further one is linked separately.

mod samples;
mod stress;
mod validation;
