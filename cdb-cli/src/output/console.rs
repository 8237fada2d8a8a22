//! The output of a run: answers to standard output as text or JSON, progress and errors to standard
//! error.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use super::color::{self, Terminal};
use crate::exit::Failure;

/// The two streams of a run, and the form of its answers.
pub(crate) struct Console<'a> {
    pub out: &'a mut (dyn Write + Send),
    pub err: &'a mut (dyn Write + Send),
    pub json: bool,
    terminal: Terminal,
    /// The name by which the program was called.
    pub program: &'a str,
    /// The text of the current progress line.
    progress: String,
}

impl<'a> Console<'a> {
    pub(crate) fn new(
        out: &'a mut (dyn Write + Send),
        err: &'a mut (dyn Write + Send),
        json: bool,
        terminal: Terminal,
        program: &'a str,
    ) -> Self {
        Self {
            out,
            err,
            json,
            terminal,
            program,
            progress: String::new(),
        }
    }

    /// Writes the answer of a command, as text or, with `--json`, as JSON.
    pub(crate) fn answer<T: Serialize + fmt::Display>(
        &mut self,
        answer: &T,
    ) -> Result<(), Failure> {
        self.end_progress()?;
        if !self.json {
            return self.shown(&answer.to_string());
        }
        let json = serde_json::to_string_pretty(answer)
            .map_err(|error| Failure::service(format!("the answer cannot be written: {error}")))?;
        self.text(&json)
    }

    /// Writes one of several answers in one line: as text or, with `--json`, as JSON. The reader
    /// receives it at once.
    pub(crate) fn line<T: Serialize + fmt::Display>(&mut self, answer: &T) -> Result<(), Failure> {
        if self.json {
            let json = serde_json::to_string(answer).map_err(|error| {
                Failure::service(format!("the answer cannot be written: {error}"))
            })?;
            self.text(&json)?;
        } else {
            self.shown(&answer.to_string())?;
        }
        self.flush()
    }

    /// Writes an answer as text, on a terminal with colors.
    fn shown(&mut self, text: &str) -> Result<(), Failure> {
        let text = sanitized(text.trim_end());
        let text = if self.terminal.color_out {
            Cow::Owned(color::answer(&text))
        } else {
            text
        };
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Writes the failure of the command to standard error, as text or, with `--json`, as JSON.
    pub(crate) fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        if self.json {
            self.end_progress()?;
            return writeln!(self.err, "{}", failure.json(self.program));
        }
        self.keep_progress()?;
        let program = format!("{}:", self.program);
        let program = if self.terminal.color_err {
            color::error(&program)
        } else {
            program
        };
        let text = failure.text(self.program);
        writeln!(self.err, "{program} {}", sanitized(&text))
    }

    /// Writes a text and a line break to standard output.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{}", sanitized(text.trim_end()))?)
    }

    /// Flushes standard output, before a command waits or runs until it is stopped.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Writes a remark to standard error.
    pub(crate) fn remark(&mut self, text: &str) -> io::Result<()> {
        self.end_progress()?;
        writeln!(self.err, "{}", sanitized(text))
    }

    /// Reports progress on a terminal, in one line that is overwritten. Elsewhere only a failure reports
    /// it: a file with both streams would have the result twice.
    pub(crate) fn progress(&mut self, text: String) -> io::Result<()> {
        if text == self.progress {
            return Ok(());
        }
        self.progress = text;
        if !self.terminal.overwrites {
            return Ok(());
        }
        // `\x1b[K` erases the rest of a longer previous text.
        write!(self.err, "\r{}\x1b[K", self.progress)?;
        self.err.flush()
    }

    /// Erases the progress line. The answer says how far the command has come.
    fn end_progress(&mut self) -> io::Result<()> {
        if self.terminal.overwrites && !self.progress.is_empty() {
            write!(self.err, "\r\x1b[K")?;
            self.err.flush()?;
        }
        self.progress.clear();
        Ok(())
    }

    /// Keeps the progress line, in front of a failure.
    fn keep_progress(&mut self) -> io::Result<()> {
        match (self.progress.is_empty(), self.terminal.overwrites) {
            (true, _) => Ok(()),
            (false, true) => writeln!(self.err),
            (false, false) => writeln!(self.err, "{}", self.progress),
        }
    }
}

impl fmt::Debug for Console<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("json", &self.json)
            .finish_non_exhaustive()
    }
}

/// Replaces control characters other than line breaks: ids and error texts are untrusted input.
fn sanitized(text: &str) -> Cow<'_, str> {
    let control = |c: char| c.is_control() && c != '\n';
    if text.contains(control) {
        Cow::Owned(text.replace(control, " "))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_lines_remain() {
        assert_eq!(sanitized("a\x1b[2Jb\nc"), "a [2Jb\nc");
    }

    /// Returns both streams of a command that reports progress and answers, or fails.
    fn streams(overwrites: bool, fails: bool) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let terminal = Terminal {
            overwrites,
            ..Terminal::default()
        };
        let mut console = Console::new(&mut out, &mut err, false, terminal, "cdb");
        for progress in ["1 %", "1 %", "2 %"] {
            console.progress(progress.to_owned()).unwrap();
        }
        if fails {
            console.failure(&Failure::usage("no")).unwrap();
        } else {
            console.answer(&"done").unwrap();
        }
        (
            String::from_utf8(out).unwrap(),
            String::from_utf8(err).unwrap(),
        )
    }

    #[test]
    fn progress_is_shown_on_a_terminal_only_and_ends_before_the_answer() {
        let shown = "\r1 %\x1b[K\r2 %\x1b[K";
        for (overwrites, fails, out, err) in [
            (true, false, "done\n", format!("{shown}\r\x1b[K")),
            (true, true, "", format!("{shown}\ncdb: no\n")),
            (false, false, "done\n", String::new()),
            (false, true, "", "2 %\ncdb: no\n".to_owned()),
        ] {
            let expected = (out.to_owned(), err);
            assert_eq!(streams(overwrites, fails), expected, "{overwrites} {fails}");
        }
    }
}
