//! The text output: lines with the time of printing and, on a terminal, one status line below them.

use std::io::{self, Write};
use std::time::Duration;

/// Columns of a line of the story after its time. Terminals have 80.
const COLUMNS: usize = 70;

/// Columns of the bar that shows how many containers have ended.
const BAR: u32 = 20;

/// Clears the line that the cursor is in and goes to its begin.
const CLEAR: &str = "\r\x1b[2K";

/// Text beyond the right margin is dropped, and no longer (DECAWM).
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Capabilities of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The output is a terminal, so lines may be overwritten.
    pub(super) terminal: bool,
    /// Colours are wanted.
    pub(super) colour: bool,
}

/// How it stands, for the line at the bottom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Containers that hold room.
    pub(super) running: u32,
    /// Containers that wait.
    pub(super) waiting: u32,
    /// Opportunistic containers that have ended well.
    pub(super) succeeded: u32,
    /// How many there are to be.
    pub(super) tasks: u32,
}

/// The output. Once it cannot be written, nothing is, and [`Screen::is_gone`] says so.
pub(super) struct Screen<W: Write> {
    out: W,
    look: Look,
    standing: Option<Standing>,
    gone: bool,
}

impl<W: Write> Screen<W> {
    /// An empty one.
    pub(super) const fn new(out: W, look: Look) -> Self {
        Self {
            out,
            look,
            standing: None,
            gone: false,
        }
    }

    /// Whether nobody reads any more.
    pub(super) const fn is_gone(&self) -> bool {
        self.gone
    }

    /// A line as it is.
    pub(super) fn line(&mut self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// Prints an event with its time. Long texts continue on the next lines, indented.
    pub(super) fn print_event(&mut self, at: Duration, text: &str) {
        let time = format!("{:6.2} s  ", at.as_secs_f64());
        let mut block = self.dim(&time);
        for (index, line) in folded(text, COLUMNS).into_iter().enumerate() {
            if index > 0 {
                block.push_str(&" ".repeat(time.len()));
            }
            block.push_str(&line);
            block.push('\n');
        }
        self.write(&block);
    }

    /// How it stands; shown on a terminal only.
    pub(super) fn stand(&mut self, standing: Option<Standing>) {
        if self.look.terminal && self.standing != standing {
            self.standing = standing;
            self.write("");
        }
    }

    /// A text that stands out.
    pub(super) fn strong(&self, text: &str) -> String {
        self.styled("1", text)
    }

    /// A text that says that something went wrong.
    pub(super) fn bad(&self, text: &str) -> String {
        self.styled("31", text)
    }

    fn dim(&self, text: &str) -> String {
        self.styled("2", text)
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.look.colour {
            format!("\x1b[{style}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Writes above the line at the bottom.
    fn write(&mut self, block: &str) {
        let mut text = String::new();
        if self.look.terminal {
            text.push_str(CLEAR);
        }
        text.push_str(block);
        if let Some(standing) = self.standing {
            // Cut where the terminal ends: of a line that goes on in the next only the last part
            // could be overwritten.
            text.push_str(NO_WRAP);
            text.push_str(&bar(standing));
            text.push_str(WRAP);
        }
        let written: io::Result<()> = self
            .out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush());
        self.gone |= written.is_err();
    }
}

fn bar(standing: Standing) -> String {
    let Standing {
        running,
        waiting,
        succeeded,
        tasks,
    } = standing;
    let filled = (succeeded * BAR).checked_div(tasks).unwrap_or(0).min(BAR);
    let bar: String = (0..BAR)
        .map(|column| if column < filled { '#' } else { '.' })
        .collect();
    format!("          [{bar}] {succeeded} of {tasks} ended, {running} running, {waiting} waiting")
}

/// Breaks a text at blanks into lines of so many characters; a longer word has a line of its own.
/// Lines of the text stay.
fn folded(text: &str, columns: usize) -> Vec<String> {
    text.lines()
        .flat_map(|line| folded_line(line, columns))
        .collect()
}

fn folded_line(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a first line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look {
        terminal: false,
        colour: false,
    };

    fn shown(look: Look, show: impl FnOnce(&mut Screen<Vec<u8>>)) -> String {
        let mut screen = Screen::new(Vec::new(), look);
        show(&mut screen);
        String::from_utf8(screen.out).unwrap()
    }

    #[test]
    fn without_a_terminal_there_are_only_lines() {
        let text = shown(PLAIN, |screen| {
            screen.stand(Some(Standing::default()));
            screen.print_event(Duration::from_millis(1_234), "Something happened.");
            let strong = screen.strong("end");
            screen.line(&strong);
        });
        assert_eq!(text, "  1.23 s  Something happened.\nend\n");
    }

    #[test]
    fn on_a_terminal_lines_go_above_how_it_stands() {
        let look = Look {
            terminal: true,
            colour: false,
        };
        let standing = Standing {
            running: 12,
            waiting: 3,
            succeeded: 18,
            tasks: 36,
        };
        let text = shown(look, |screen| {
            screen.stand(Some(standing));
            screen.stand(Some(standing));
            screen.line("told");
            screen.stand(None);
        });
        let below = "          [##########..........] 18 of 36 ended, 12 running, 3 waiting";
        let below = format!("{NO_WRAP}{below}{WRAP}");
        assert_eq!(text, format!("{CLEAR}{below}{CLEAR}told\n{below}{CLEAR}"));
    }

    #[test]
    fn colours_are_used_only_when_wanted() {
        let look = Look {
            terminal: false,
            colour: true,
        };
        let text = shown(look, |screen| screen.print_event(Duration::ZERO, "x"));
        assert_eq!(text, "\x1b[2m  0.00 s  \x1b[0mx\n");
    }

    #[test]
    fn long_texts_are_broken_at_blanks_and_lose_nothing() {
        let text = "one two three fourfivesix seven";
        let lines = folded(text, 9);
        assert_eq!(lines, ["one two", "three", "fourfivesix", "seven"]);
        assert_eq!(lines.join(" "), text);
        assert_eq!(folded("a b\n\nc", 80), ["a b", "", "c"]);
    }

    #[test]
    fn a_reader_that_went_away_is_noticed() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut screen = Screen::new(Closed, PLAIN);
        assert!(!screen.is_gone());
        screen.line("x");
        assert!(screen.is_gone());
    }
}
