//! Progress on standard error: a bar on a terminal, a line a problem where there is none.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// How far a command has come, measured in work and not in items: the time that is left follows from it.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    lines: bool,
}

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), lines: false }
    }

    /// Progress of so many products that are so much work.
    pub fn new(products: u64, work: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            eprintln!("{products} products");
            return Self { bar: ProgressBar::hidden(), lines: true };
        }
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {elapsed} (about {eta} left) {msg}");
        let bar = ProgressBar::new(work).with_style(style.expect("the template is well-formed"));
        Self { bar, lines: false }
    }

    /// What is being done now.
    pub fn say(&self, text: &str) {
        self.bar.set_message(text.to_string());
        tracing::debug!("{text}");
    }

    /// So much more is done.
    pub fn advance(&self, work: u64) {
        self.bar.inc(work);
    }

    /// A problem is done.
    pub fn finish_line(&self, text: &str) {
        if self.lines {
            eprintln!("{text}");
        }
    }

    /// All is done: the bar goes, what was printed stays.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
