//! The race: starts the processes, kills some, reads their output, and compares it with the stored
//! documents.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient};
use cdb_emulator::Emulator;
use cdb_model::operation::{BulkBatch, Lease};
use cdb_model::{Document as _, Query};
use tokio::time::Instant;

use super::worker::{Job, Jobs, Task};

/// The number of logical partitions.
const LANES: u64 = 250;

/// The documents, on an emulator.
pub(crate) struct Race {
    emulator: Emulator,
    jobs: ContainerClient<Jobs>,
    documents: u64,
    lease: Duration,
}

/// One line of a process: the process, the document, the fencing token.
struct Said {
    process: usize,
    number: u64,
    token: u64,
}

/// The result of a round.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) round: u64,
    pub(crate) processes: usize,
    pub(crate) killed: usize,
    /// How many leases were won.
    pub(crate) leases: u64,
    /// How many documents were leased again although their holder of the same round was alive.
    pub(crate) twice: u64,
    /// How many documents were leased again after their holder was killed.
    pub(crate) taken_over: u64,
    /// How many documents were leased twice with the same token.
    pub(crate) same_token: u64,
    /// How many documents were not worked on.
    pub(crate) lost: u64,
    /// How many documents were not worked on exactly once per round.
    pub(crate) miscounted: u64,
    elapsed: Duration,
    requests: u64,
    charge: f64,
}

impl Race {
    pub(crate) async fn start(documents: u64, lease: Duration) -> Result<Self, Box<dyn Error>> {
        let emulator = Emulator::builder().physical_partitions(4).start().await?;
        let jobs = task(&emulator, 0, 0, lease)
            .open(Bootstrap::default())
            .await?;
        let mut bulk = BulkBatch::new();
        for number in 0..documents {
            bulk.add(
                Job {
                    lane: format!("lane-{}", number % LANES),
                    number,
                    round: 0,
                    times: 0,
                    lease: Lease::free(),
                }
                .create(),
            )?;
        }
        for created in jobs.execute_bulk(&bulk).await {
            created?;
        }
        Ok(Self {
            emulator,
            jobs,
            documents,
            lease,
        })
    }

    /// Runs one round, in which every document is worked on once. Kills `killed` processes after a
    /// third of the documents was leased.
    pub(crate) async fn run(
        &self,
        round: u64,
        processes: usize,
        killed: usize,
        program: impl Fn() -> Command,
    ) -> Result<Outcome, Box<dyn Error>> {
        self.emulator.reset_requests();
        let begun = Instant::now();
        let mut children = Vec::new();
        let (said, heard) = channel();
        for process in 0..processes {
            let mut command = program();
            let task = task(&self.emulator, process, round, self.lease);
            task.hand_to(&mut command)?;
            let mut child = command.stdout(Stdio::piped()).spawn()?;
            listen(process, &mut child, said.clone());
            children.push(child);
        }
        drop(said);
        let third = self.documents / 3;
        let watched = tokio::task::spawn_blocking(move || -> std::io::Result<_> {
            let (mut lines, mut leased) = (Vec::new(), 0);
            for said in heard {
                leased += 1;
                lines.push(said);
                if leased == third {
                    children.iter_mut().take(killed).try_for_each(Child::kill)?;
                }
            }
            let ended = children.iter_mut().map(Child::wait);
            let ended: Vec<_> = ended.collect::<std::io::Result<_>>()?;
            Ok((lines, ended))
        });
        let (lines, ended) = watched.await??;
        if let Some(failed) = ended.iter().skip(killed).find(|status| !status.success()) {
            return Err(format!("a process that was not killed ended with {failed}").into());
        }
        let log = self.emulator.requests();
        let (lost, miscounted) = self.stored(round).await?;
        Ok(Outcome {
            round,
            processes,
            killed,
            lost,
            miscounted,
            elapsed: begun.elapsed(),
            requests: log.data_requests(),
            charge: log.charge,
            ..Outcome::of(&lines, killed)
        })
    }

    /// How many documents were left out, and how many were not worked on once per round.
    async fn stored(&self, round: u64) -> Result<(u64, u64), Box<dyn Error>> {
        let jobs = || Query::<Job>::across_partitions();
        let lost = jobs().filter(Job::ROUND.lt(round)).count();
        let wrong = jobs().filter(Job::TIMES.ne(round)).count();
        Ok((
            self.jobs.query(lost).first().await?.unwrap_or(0),
            self.jobs.query(wrong).first().await?.unwrap_or(0),
        ))
    }
}

fn task(emulator: &Emulator, process: usize, round: u64, lease: Duration) -> Task {
    Task {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        holder: format!("process-{process}"),
        round,
        lease,
    }
}

/// Forwards the lines of a process until it ends.
fn listen(process: usize, child: &mut Child, said: Sender<Said>) {
    let Some(output) = child.stdout.take() else {
        return;
    };
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let ["leased", number, token] = words[..] else {
                continue;
            };
            if let (Ok(number), Ok(token)) = (number.parse(), token.parse()) {
                // The receiver is gone after a failure of the race.
                let _heard = said.send(Said {
                    process,
                    number,
                    token,
                });
            }
        }
    });
}

impl Outcome {
    pub(crate) const HEADER: &str = "\
| round | processes | killed | leases | twice | taken over from the dead | lost | seconds | leases/s | requests per lease | RU per lease |
|---|---|---|---|---|---|---|---|---|---|---|";

    /// Evaluates the lines. The killed processes have the lowest numbers.
    fn of(lines: &[Said], killed: usize) -> Self {
        let mut holders: HashMap<u64, Vec<&Said>> = HashMap::new();
        for said in lines {
            holders.entry(said.number).or_default().push(said);
        }
        let mut outcome = Self::default();
        for leases in holders.values_mut() {
            leases.sort_by_key(|said| said.token);
            outcome.leases += 1;
            for pair in leases.windows(2) {
                outcome.leases += 1;
                outcome.same_token += u64::from(pair[0].token == pair[1].token);
                if pair[0].process < killed {
                    outcome.taken_over += 1;
                } else {
                    outcome.twice += 1;
                }
            }
        }
        outcome
    }

    /// Checks that each document was leased once, or again after its holder died, and that none was
    /// lost.
    pub(crate) fn judge(&self, documents: u64) -> Result<(), String> {
        let sound = self.twice == 0
            && self.same_token == 0
            && self.lost == 0
            && self.miscounted == 0
            && (self.killed > 0 || self.leases == documents);
        if sound {
            Ok(())
        } else {
            Err(format!("the guarantee is broken: {self:?}"))
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "figures of a table")]
        let (leases, requests) = (self.leases as f64, self.requests as f64);
        write!(
            f,
            "| {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.0} | {:.2} | {:.1} |",
            self.round,
            self.processes,
            self.killed,
            self.leases,
            self.twice,
            self.taken_over,
            self.lost,
            self.elapsed.as_secs_f64(),
            leases / self.elapsed.as_secs_f64(),
            requests / leases,
            self.charge / leases,
        )
    }
}
