//! A bench for one key: holders, the document, and requests that are lost, late and duplicated, in the order of a
//! random schedule.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::machine::holder::{Holder, Want};
use crate::machine::{Answer, Condition, Field, Line, Patch, Request, Rule, RuntimeId, Time};

/// A fault that is built into the protocol on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    /// A patch without an answer is sent again, without its sequence number.
    SendsAgain,
}

/// A step of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// More items wait in a holder.
    Wants(usize, u8),
    /// Items wait that are old, so that their runtime stands in line.
    WantsOld(usize),
    /// A running item ends.
    Ends(usize),
    /// The holder sends what is due, and gets the answer.
    Sends(usize),
    /// The request does not arrive now, maybe later.
    LosesRequest(usize),
    LosesAnswer(usize),
    /// The request arrives once more, later.
    Duplicates(usize),
    /// The oldest late request arrives.
    Arrives,
    /// A runtime is fenced and replaced. Its items have lost their locks.
    Dies(usize),
    Changes(u8),
    /// Time passes, in tenths of a second.
    Passes(u8),
}

#[derive(Debug)]
struct Side {
    id: RuntimeId,
    holder: Holder,
    running: i64,
    waiting: i64,
    has_old: bool,
    /// The patch whose answer was lost, for the mutant.
    again: Option<Patch>,
}

/// Holders of one key.
#[derive(Debug)]
pub(super) struct Bench {
    mutant: Mutant,
    line: Option<Arc<Line>>,
    rule: Rule,
    /// What ran when the limit was lowered may run on.
    excused: i64,
    sides: Vec<Side>,
    late: Vec<Request>,
    dead: BTreeSet<RuntimeId>,
    now: Time,
    ids: u32,
}

impl Bench {
    pub(super) fn new(mutant: Mutant, holders: usize, most: i64) -> Self {
        let rule = Rule {
            version: 1,
            running: Some(most),
            interval: None,
        };
        let mut bench = Self {
            mutant,
            line: None,
            rule,
            excused: 0,
            sides: Vec::new(),
            late: Vec::new(),
            dead: BTreeSet::new(),
            now: Duration::from_secs(1_000),
            ids: 0,
        };
        for _ in 0..holders {
            let side = bench.side();
            bench.sides.push(side);
        }
        bench
    }

    fn side(&mut self) -> Side {
        self.ids += 1;
        let id: RuntimeId = format!("r{}", self.ids).into();
        Side {
            holder: Holder::new(id.clone(), self.rule),
            id,
            running: 0,
            waiting: 0,
            has_old: false,
            again: None,
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        let count = self.sides.len();
        match step {
            Step::Wants(at, more) => self.sides[at % count].waiting += i64::from(more % 4),
            Step::WantsOld(at) => {
                let side = &mut self.sides[at % count];
                side.waiting += 1;
                side.has_old = true;
            }
            Step::Ends(at) => {
                let side = &mut self.sides[at % count];
                if side.running > 0 {
                    side.running -= 1;
                    self.excused = (self.excused - 1).max(0);
                    side.holder.release(self.now);
                }
            }
            Step::Sends(at) => self.send(at % count, &[true], true),
            Step::LosesRequest(at) => self.send(at % count, &[false], false),
            Step::LosesAnswer(at) => self.send(at % count, &[true], false),
            Step::Duplicates(at) => self.send(at % count, &[true, false], true),
            Step::Arrives => {
                if !self.late.is_empty() {
                    let request = self.late.remove(0);
                    self.serve(&request);
                }
            }
            Step::Dies(at) => {
                let new = self.side();
                let old = std::mem::replace(&mut self.sides[at % count], new);
                self.dead.insert(old.id);
            }
            Step::Changes(most) => self.change(i64::from(most % 5)),
            Step::Passes(tenths) => self.now += Duration::from_millis(100) * u32::from(tenths),
        }
        for side in &mut self.sides {
            while side.waiting > 0 && side.holder.idle() > 0 && !self.rule.is_paused() {
                side.holder.acquire(self.now);
                side.waiting -= 1;
                side.running += 1;
            }
            side.has_old &= side.waiting > 0;
        }
    }

    fn change(&mut self, most: i64) {
        self.rule = Rule {
            version: self.rule.version + 1,
            running: Some(most),
            interval: None,
        };
        self.excused = self.sides.iter().map(|side| side.running).sum();
        for side in &mut self.sides {
            side.holder.set_rule(self.rule);
        }
    }

    /// Sends the next request of a holder: `arrivals` say whether each copy arrives now or late.
    fn send(&mut self, at: usize, arrivals: &[bool], is_answered: bool) {
        let (side, now) = (&mut self.sides[at], self.now);
        let want = Want {
            permits: side.waiting,
            slots: 0,
            oldest: (side.waiting > 0).then_some(now),
            keeps: side.has_old,
            line: side
                .has_old
                .then(|| now.saturating_sub(Duration::from_secs(60))),
        };
        let Some(request) = side.holder.next(&want, &self.dead, now) else {
            return;
        };
        let request = self.mutate(at, request, is_answered);
        let mut answer = Answer::Lost;
        for arrives in arrivals {
            if *arrives {
                answer = self.serve(&request);
            } else {
                self.late.push(request.clone());
            }
        }
        let answer = if is_answered { answer } else { Answer::Lost };
        self.sides[at].holder.on(answer, now);
    }

    /// The mutant sends a patch again where the protocol sends a fence.
    fn mutate(&mut self, at: usize, request: Request, is_answered: bool) -> Request {
        let side = &mut self.sides[at];
        if self.mutant == Mutant::None {
            return request;
        }
        let Request::Patch(fence) = request else {
            return request;
        };
        let mut patch = side.again.take().unwrap_or(fence);
        let is_seq =
            |condition: &Condition| matches!(condition, Condition::Equals(Field::Seq(_), _));
        patch.conditions.retain(|condition| !is_seq(condition));
        side.again = (!is_answered).then(|| patch.clone());
        Request::Patch(patch)
    }

    fn serve(&mut self, request: &Request) -> Answer {
        let after = match (request, &self.line) {
            (Request::Create(_), Some(_)) => return Answer::Refused,
            (Request::Create(line), None) => Arc::new(line.clone()),
            (_, None) => return Answer::Missing,
            (Request::Read, Some(line)) => return Answer::Line(line.clone()),
            (Request::Patch(patch), Some(line)) => match line.apply(patch) {
                Ok(after) => Arc::new(after),
                Err(_) => return Answer::Refused,
            },
        };
        self.line = Some(after.clone());
        Answer::Line(after)
    }

    /// Returns what is wrong.
    pub(super) fn fault(&self) -> Option<String> {
        let running: i64 = self.sides.iter().map(|side| side.running).sum();
        let most = self.rule.cap().max(self.excused);
        if running > most {
            return Some(format!("{running} of {most} run"));
        }
        let line = self.line.as_ref()?;
        if line.free + line.held() != line.cap {
            return Some(format!("permits are not conserved: {line:?}"));
        }
        let negative = line.holders.values().any(|entry| entry.held < 0);
        negative.then(|| format!("negative permits: {line:?}"))
    }

    /// Ends all items and repeats without faults. Returns whether all permits are free in the end.
    pub(super) fn settles(&mut self) -> bool {
        for side in 0..self.sides.len() {
            self.sides[side].waiting = 0;
            self.sides[side].has_old = false;
            for _ in 0..self.sides[side].running {
                self.step(Step::Ends(side));
            }
        }
        for _ in 0..60 {
            self.step(Step::Passes(60));
            for side in 0..self.sides.len() {
                self.step(Step::Sends(side));
            }
        }
        let held = |line: &Arc<Line>| {
            let living = line
                .holders
                .iter()
                .filter(|(id, _)| !self.dead.contains(*id));
            living.map(|(_, entry)| entry.held).sum::<i64>()
        };
        self.line.as_ref().is_none_or(|line| held(line) == 0)
    }
}
