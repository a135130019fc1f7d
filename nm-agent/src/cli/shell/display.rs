//! Shows how a job is going: a bar on a terminal, otherwise a line when something has changed.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shell::{Progress, text};
use tokio::sync::watch;
use tokio::time::sleep;

/// Between two lines, at least, where there is no terminal: a log is not to be flooded.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Time, bar, and what [`text::progress_line`] says.
const TEMPLATE: &str = "[{elapsed}] [{bar:30}] {msg}";

/// Redraws in a second, at most.
const REDRAWS_PER_SECOND: u8 = 10;

/// Destination of progress: standard error, so that standard output holds only the result.
enum Display {
    Bar(ProgressBar),
    Lines,
}

/// Shows progress until it is dropped; then the bar is gone.
pub(super) async fn show(mut progress: watch::Receiver<Progress>) {
    let display = Display::new();
    let mut last = String::new();
    loop {
        let now = progress.borrow_and_update().clone();
        let line = text::progress_line(&now);
        if line != last {
            display.show(&now, &line);
            last = line;
        }
        if progress.changed().await.is_err() {
            // Nothing more will be said; whoever waits for the end drops this.
            std::future::pending::<()>().await;
        }
        if matches!(display, Display::Lines) {
            sleep(LINE_INTERVAL).await;
        }
    }
}

impl Display {
    fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND);
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template(TEMPLATE);
        bar.set_style(style.expect("the template is a constant that a test reads"));
        Self::Bar(bar)
    }

    fn show(&self, progress: &Progress, line: &str) {
        match self {
            Self::Bar(bar) => {
                if let Some(counts) = progress.counts {
                    bar.set_length(counts.tasks.into());
                    bar.set_position(counts.ended().into());
                }
                bar.set_message(line.to_owned());
            }
            Self::Lines => super::tell(line),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Lines => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_of_the_bar_is_good() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
