//! `nm-agent top`: the terminal of it.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::Print;
use crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{execute, queue};
use node_admin::client::{AskError, ask};
use node_admin::message::{Answer, Request};
use records::error_chain;

use super::{Environment, Socket, exit_code, path, print_out, wrong_answer};
use crate::operate::top::{Look, Order, Rows, lines, screen};

/// Containers asked for of each kind: more than a screen has lines.
const LISTED_MAX: usize = 500;

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    socket: Socket,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Why there is no look at the node.
enum NoLook {
    Ask(AskError),
    WrongAnswer,
}

impl NoLook {
    fn words(&self) -> String {
        match self {
            Self::Ask(error) => error_chain(error),
            Self::WrongAnswer => "the agent answered another request".to_owned(),
        }
    }
}

impl From<AskError> for NoLook {
    fn from(error: AskError) -> Self {
        Self::Ask(error)
    }
}

pub(crate) fn top(arguments: &TopArguments, environment: &Environment) -> ExitCode {
    let path = match path(&arguments.socket, environment) {
        Ok(path) => path,
        Err(failed) => return failed,
    };
    // Before the screen is taken, so that the reason for having nothing to show stays on it.
    let look = match look(&path) {
        Ok(look) => look,
        Err(NoLook::WrongAnswer) => return wrong_answer(),
        Err(NoLook::Ask(error)) => {
            eprintln!("nm-agent: {}", error_chain(&error));
            return exit_code(&error);
        }
    };
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        eprintln!("nm-agent: not on a terminal, so this is one look");
        let mut text = lines(&look, Order::default(), Rows::default()).join("\n");
        text.push('\n');
        return print_out(&text);
    }
    let interval = Duration::from_secs(arguments.interval);
    match Screen::take().and_then(|mut screen| screen.watch(&path, look, interval)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nm-agent: the terminal cannot be used: {error}");
            ExitCode::FAILURE
        }
    }
}

fn look(path: &Path) -> Result<Look, NoLook> {
    let first = LISTED_MAX;
    let Answer::Status(status) = ask(path, &Request::Status)? else {
        return Err(NoLook::WrongAnswer);
    };
    let Answer::Running(running) = ask(path, &Request::Running { first })? else {
        return Err(NoLook::WrongAnswer);
    };
    let Answer::Queue(queue) = ask(path, &Request::Queue { first })? else {
        return Err(NoLook::WrongAnswer);
    };
    Ok(Look {
        status: *status,
        running,
        queue,
    })
}

/// Wish of the reader, by a key or by another size of the terminal.
enum Wish {
    Quit,
    OtherOrder,
    OtherRows,
    Redraw,
}

/// The terminal, given back as it was when this is dropped.
struct Screen {
    order: Order,
    rows: Rows,
}

impl Screen {
    fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on, a failure drops it and so gives the terminal back.
        let screen = Self {
            order: Order::default(),
            rows: Rows::default(),
        };
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Shows the node until the reader quits. An agent that goes away is waited for.
    fn watch(&mut self, path: &Path, mut last: Look, interval: Duration) -> io::Result<()> {
        let mut trouble = None;
        loop {
            let next = Instant::now() + interval;
            self.draw(&last, trouble.as_deref())?;
            while let Some(wish) = wish_until(next)? {
                match wish {
                    Wish::Quit => return Ok(()),
                    Wish::OtherOrder => self.order = self.order.next(),
                    Wish::OtherRows => self.rows = self.rows.other(),
                    Wish::Redraw => {}
                }
                self.draw(&last, trouble.as_deref())?;
            }
            trouble = match look(path) {
                Ok(look) => {
                    last = look;
                    None
                }
                Err(no_look) => Some(no_look.words()),
            };
        }
    }

    fn draw(&self, look: &Look, trouble: Option<&str>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let size = terminal::size()?;
        for (row, line) in (0..).zip(screen(look, (self.order, self.rows), trouble, size)) {
            let clear = Clear(ClearType::UntilNewLine);
            queue!(out, MoveTo(0, row), Print(line), clear)?;
        }
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to do where even this fails.
        let _gone = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _gone = disable_raw_mode();
    }
}

/// Waits for a key or another size of the terminal; `None` when the time is over.
fn wish_until(next: Instant) -> io::Result<Option<Wish>> {
    loop {
        let left = next.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(None);
        }
        if let Some(wish) = wish_of(&event::read()?) {
            return Ok(Some(wish));
        }
    }
}

fn wish_of(event: &Event) -> Option<Wish> {
    if matches!(event, Event::Resize(..)) {
        return Some(Wish::Redraw);
    }
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: KeyEventKind::Press,
        ..
    }) = event
    else {
        return None;
    };
    let is_control = modifiers.contains(KeyModifiers::CONTROL);
    let quits = [KeyCode::Char('q'), KeyCode::Esc].contains(code);
    if quits || (is_control && *code == KeyCode::Char('c')) {
        Some(Wish::Quit)
    } else if *code == KeyCode::Char('s') {
        Some(Wish::OtherOrder)
    } else if *code == KeyCode::Char('a') {
        Some(Wish::OtherRows)
    } else {
        None
    }
}
