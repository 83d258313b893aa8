//! What is done with a mutant, under limits of time and memory.

mod data;
mod head;
mod plan;
mod program;
mod solve;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::meter;

/// The longest a case may take in an ordinary build.
pub const TIME: Duration = Duration::from_secs(1);
/// Bytes a case may use on top of its file and the planned memory that the file declares.
const EXTRA: u64 = 64 << 20;

/// What reads the mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The header of a program or a data file
    Head,
    /// Verification and the list of all problems of a program
    Verify,
    /// Loading of every method
    Load,
    /// Loading and running of every method
    Run,
    /// Data files (.ptd)
    Data,
    /// Devices and new places for every method, written and read again
    Plan,
    /// Arrays (.npy), as inputs and expected outputs
    Npy,
    /// Documents of calls (meta.json)
    Calls,
    /// Allocation instances (.csv), solved
    Solve,
}

impl Kind {
    /// The extension of its seeds.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Data => "ptd",
            Self::Npy => "npy",
            Self::Calls => "json",
            Self::Solve => "csv",
            _ => "pte",
        }
    }

    /// Whether words can be found in its files.
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Self::Npy | Self::Calls | Self::Solve)
    }
}

/// How far a mutant got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file was refused.
    Refused,
    /// It was read, and something in it was refused.
    Partly,
    /// All went well.
    Accepted,
}

/// A kind, ready for work.
pub struct Target {
    kind: Kind,
    time: Duration,
    programs: program::Programs,
}

impl Target {
    /// One whose cases may take so long.
    #[must_use]
    pub fn new(kind: Kind, time: Duration) -> Self {
        let programs = program::Programs::new(kind == Kind::Run);
        Self {
            kind,
            time,
            programs,
        }
    }

    /// What became of a mutant.
    ///
    /// # Errors
    ///
    /// What went wrong with it: a panic, more time or more memory than it may take, or a result that is none.
    pub fn check(&self, bytes: Vec<u8>) -> Result<Outcome, String> {
        let again = bytes.clone();
        let (outcome, took) = self.measure(bytes)?;
        if took <= self.time {
            return Ok(outcome);
        }
        // Anything takes long once on a busy machine.
        let (outcome, took) = self.measure(again)?;
        if took > self.time {
            return Err(format!("took {took:?}"));
        }
        Ok(outcome)
    }

    /// What became of a mutant, and how long it took.
    fn measure(&self, bytes: Vec<u8>) -> Result<(Outcome, Duration), String> {
        let declared = match self.kind {
            Kind::Load | Kind::Run => program::declared(&bytes),
            _ => 0,
        };
        let allowed = bytes.len() as u64 + declared + EXTRA;
        let before = meter::restart();
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work(bytes)));
        let (took, used) = (start.elapsed(), meter::peak().saturating_sub(before));
        let outcome = outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or(panic.downcast_ref::<&str>().copied())
                .unwrap_or("?");
            format!("panic: {text}")
        })??;
        if used > allowed {
            return Err(format!("used {used} bytes, and {allowed} are allowed"));
        }
        Ok((outcome, took))
    }

    fn work(&self, bytes: Vec<u8>) -> Result<Outcome, String> {
        match self.kind {
            Kind::Head => head::check(&bytes),
            Kind::Verify => Ok(program::verify(&bytes)),
            Kind::Load | Kind::Run => Ok(self.programs.check(bytes)),
            Kind::Data => Ok(data::check(bytes)),
            Kind::Plan => plan::check(&bytes),
            Kind::Npy => Ok(outcome(et_cli::untrusted::npy(&bytes))),
            Kind::Calls => Ok(outcome(et_cli::untrusted::calls(&bytes))),
            Kind::Solve => solve::check(&bytes),
        }
    }
}

/// What `et` says.
fn outcome(said: Result<(), String>) -> Outcome {
    match said {
        Ok(()) => Outcome::Accepted,
        Err(_) => Outcome::Refused,
    }
}
