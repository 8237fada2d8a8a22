//! Colors on terminals: states and findings in answers, errors in red.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};

/// Which of the standard streams is a terminal, and whether it shows colors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terminal {
    /// Standard error is a terminal, so progress overwrites its own line.
    pub overwrites: bool,
    pub color_out: bool,
    pub color_err: bool,
}

impl Terminal {
    /// Reads the standard streams of this process. `NO_COLOR`, `CLICOLOR` and `TERM` are obeyed.
    pub(crate) fn of_process() -> Self {
        let (out, err) = (
            std::io::stdout().is_terminal(),
            std::io::stderr().is_terminal(),
        );
        let colors = !anstyle_query::no_color()
            && anstyle_query::clicolor().unwrap_or(true)
            && anstyle_query::term_supports_color();
        Self {
            overwrites: err,
            color_out: out && colors,
            color_err: err && colors,
        }
    }
}

/// Returns a text in the color of errors.
pub(crate) fn error(text: &str) -> String {
    painted(AnsiColor::Red.on_default().bold(), text)
}

/// Colors the states and findings of an answer: cells of a table, and values behind a label. Cells
/// are separated by two spaces.
pub(crate) fn answer(text: &str) -> String {
    let mut colored = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        for cell in line.split_inclusive("  ") {
            let word = cell.split([' ', ',', '\n']).next().unwrap_or_default();
            match style_of(word) {
                Some(style) => {
                    colored += &painted(style, word);
                    colored += &cell[word.len()..];
                }
                None => colored += cell,
            }
        }
    }
    colored
}

fn style_of(word: &str) -> Option<Style> {
    let color = match word {
        "Failed" | "PROBLEM" => AnsiColor::Red,
        "warning" | "silent" => AnsiColor::Yellow,
        "Running" => AnsiColor::Cyan,
        "Completed" | "ok" | "alive" => AnsiColor::Green,
        _ => return None,
    };
    Some(color.on_default())
}

fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows the escape sequences of an answer as `<` and `>`.
    fn shown(text: &str) -> String {
        let text = answer(text).replace("\u{1b}[0m", ">");
        let mut parts = text.split('\u{1b}');
        let first = parts.next().unwrap();
        let colored = parts.map(|part| part.split_once('m').unwrap().1);
        let all: Vec<&str> = std::iter::once(first).chain(colored).collect();
        all.join("<")
    }

    #[test]
    fn states_are_colored_in_cells_and_behind_labels() {
        assert_eq!(shown("a  Failed  b\n"), "a  <Failed>  b\n");
        assert_eq!(shown("Running #2  x"), "<Running> #2  x");
        assert_eq!(
            shown("status:      Completed, execution 2"),
            "status:      <Completed>, execution 2"
        );
        assert_eq!(shown("PROBLEM  slots\nok"), "<PROBLEM>  slots\n<ok>");
    }

    #[test]
    fn other_words_and_words_inside_a_cell_have_no_color() {
        for text in ["Failedly  x", "order Failed  x", "it is ok"] {
            assert_eq!(answer(text), text);
        }
    }
}
