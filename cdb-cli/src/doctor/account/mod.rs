//! The account check, `cdb doctor --account`: what the project assumes about the service, as questions to an
//! account.
//!
//! `probes` has the table of all questions. Each names the files that rely on the answer. The
//! questions rely on an endpoint only, so they also run on the embedded emulator and on the
//! in-memory emulator of the Cosmos team. There the suites check that a question finds wrong answers.

mod answer;
mod check;
mod probes;
mod question;
mod raw;
mod report;
mod run;
mod samples;
mod subject;

pub use answer::Answer;
pub use probes::PROBES;
pub use question::Probe;
pub use report::{Answered, Report};
pub use run::run;
pub use subject::Subject;
