//! Where answers go: text or JSON to standard output, progress and complaints to standard error.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Failure;

/// The two streams of a run, and the form of its answers.
pub(crate) struct Console<'a> {
    pub out: &'a mut (dyn Write + Send),
    pub err: &'a mut (dyn Write + Send),
    pub json: bool,
    /// Whether progress overwrites its own line.
    pub terminal: bool,
    /// What stands on the line of progress now.
    progress: String,
}

impl<'a> Console<'a> {
    pub(crate) fn new(
        out: &'a mut (dyn Write + Send),
        err: &'a mut (dyn Write + Send),
        json: bool,
        terminal: bool,
    ) -> Self {
        Self {
            out,
            err,
            json,
            terminal,
            progress: String::new(),
        }
    }

    /// The answer of a command: what it displays, or with `--json` its members.
    pub(crate) fn answer<T: Serialize + fmt::Display>(
        &mut self,
        answer: &T,
    ) -> Result<(), Failure> {
        self.end_progress()?;
        if !self.json {
            return self.text(&answer.to_string());
        }
        let json = serde_json::to_string_pretty(answer)
            .map_err(|error| Failure::service(format!("the answer cannot be written: {error}")))?;
        self.text(&json)
    }

    /// Text as it is, with a line break at its end.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{}", text.trim_end())?)
    }

    /// A remark beside the answer.
    pub(crate) fn remark(&mut self, text: &str) -> io::Result<()> {
        self.end_progress()?;
        writeln!(self.err, "{text}")
    }

    /// How far long work has come. On a terminal it overwrites itself, elsewhere each change is a line.
    pub(crate) fn progress(&mut self, text: String) -> io::Result<()> {
        if text == self.progress {
            return Ok(());
        }
        if self.terminal {
            // Erases to the end of the line: the text before may have been longer.
            write!(self.err, "\r{text}\x1b[K")?;
        } else {
            writeln!(self.err, "{text}")?;
        }
        self.progress = text;
        self.err.flush()
    }

    fn end_progress(&mut self) -> io::Result<()> {
        if self.terminal && !self.progress.is_empty() {
            writeln!(self.err)?;
        }
        self.progress.clear();
        Ok(())
    }
}

impl fmt::Debug for Console<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("json", &self.json)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_on_a_terminal_overwrites_itself_and_ends_before_the_answer() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console::new(&mut out, &mut err, false, true);
        console.progress("1 %".to_owned()).unwrap();
        console.progress("1 %".to_owned()).unwrap();
        console.progress("2 %".to_owned()).unwrap();
        console.answer(&"done").unwrap();
        assert_eq!(String::from_utf8(err).unwrap(), "\r1 %\x1b[K\r2 %\x1b[K\n");
        assert_eq!(out, b"done\n");
    }
}
