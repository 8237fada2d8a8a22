//! The answers of an account.

use std::fmt;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::answer::Answer;
use super::question::Probe;

/// The answers of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The answers, in the order of the questions.
    pub answers: Vec<Answered>,
    /// How many requests the run sent.
    pub requests: u64,
    /// What they cost, in request units.
    #[serde(rename = "requestUnits")]
    pub charge: f64,
    /// The containers of the run that could not be deleted, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<String>,
}

/// A question with its answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answered {
    /// The question.
    pub probe: &'static Probe,
    /// The answer.
    pub answer: Answer,
}

impl Answered {
    /// Whether an assumption does not hold that correctness depends on.
    fn is_broken(&self) -> bool {
        self.probe.is_required && self.answer.is_no()
    }
}

impl Report {
    /// Whether every assumption holds that correctness depends on, and nothing remains.
    pub fn is_sound(&self) -> bool {
        self.remaining.is_empty() && !self.answers.iter().any(Answered::is_broken)
    }
}

impl Serialize for Answered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (answer, found) = match &self.answer {
            Answer::Yes(found) => ("yes", found),
            Answer::No(found) => ("no", found),
            Answer::NotAsked(why) => ("notAsked", why),
        };
        let mut fields = serializer.serialize_struct("Answered", 6)?;
        fields.serialize_field("name", self.probe.name)?;
        fields.serialize_field("question", self.probe.question)?;
        fields.serialize_field("required", &self.probe.is_required)?;
        fields.serialize_field("answer", answer)?;
        fields.serialize_field("found", found)?;
        fields.serialize_field("reliedOnBy", self.probe.relied_on_by)?;
        fields.end()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Answered { probe, answer } in &self.answers {
            writeln!(f, "{}: {}\n    {answer}", probe.name, probe.question)?;
        }
        writeln!(f, "\n{} requests, {:.0} RU", self.requests, self.charge)?;
        for remaining in &self.remaining {
            writeln!(
                f,
                "a container of the check remains, delete it: {remaining}"
            )?;
        }
        let mut broken = self.answers.iter().filter(|it| it.is_broken()).peekable();
        if broken.peek().is_none() {
            return writeln!(f, "every assumption that correctness depends on holds");
        }
        writeln!(
            f,
            "assumptions that correctness depends on do not hold; please open an issue with this report"
        )?;
        for Answered { probe, .. } in broken {
            writeln!(
                f,
                "{}: relied on by {}",
                probe.name,
                probe.relied_on_by.join(", ")
            )?;
        }
        Ok(())
    }
}
