//! What is wrong with the items of one list of a peer, in one log line.

use std::fmt::{self, Display, Write as _};

/// Findings that the line has in words.
const WORDED_MAX: usize = 3;

/// Characters of one finding, which may have texts of the peer.
const CHARS_MAX: usize = 300;

/// Collects what is wrong with the items of one list that a peer sent. Its text is as long for a
/// million items as for four: the first three findings, and the number of the others.
#[derive(Debug, Default)]
pub struct Findings {
    worded: Vec<String>,
    others: u64,
}

/// Text that takes a number of characters and drops the rest.
struct Cut {
    text: String,
    left: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars().take(self.left) {
            self.text.push(char);
            self.left -= 1;
        }
        Ok(())
    }
}

/// Returns the first characters of a text of a peer, for a log line.
#[must_use]
pub fn cut(text: impl Display) -> String {
    let mut cut = Cut {
        text: String::new(),
        left: CHARS_MAX,
    };
    // Writing into a string cannot fail.
    let _ = write!(cut, "{text}");
    cut.text
}

impl Findings {
    /// Adds a finding. Those after the first three are only counted.
    pub fn add(&mut self, finding: impl Display) {
        if self.worded.len() < WORDED_MAX {
            self.worded.push(cut(finding));
        } else {
            self.others += 1;
        }
    }

    /// Returns whether nothing is wrong.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.worded.is_empty()
    }

    /// Returns the number of findings.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.worded.len() as u64 + self.others
    }
}

impl Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded.join("; "))?;
        match self.others {
            0 => Ok(()),
            others => write!(f, "; and {others} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_are_told_and_the_others_counted() {
        let mut findings = Findings::default();
        assert!(findings.is_empty());
        for number in 1..=3 {
            findings.add(number);
        }
        assert_eq!(findings.to_string(), "1; 2; 3");
        for number in 4..=1_000_000 {
            findings.add(number);
        }
        assert_eq!(findings.to_string(), "1; 2; 3; and 999997 more");
        assert_eq!(findings.count(), 1_000_000);
        assert!(!findings.is_empty());
    }

    #[test]
    fn a_long_text_of_a_peer_is_cut() {
        let mut findings = Findings::default();
        findings.add("ä".repeat(10 * CHARS_MAX));
        assert_eq!(findings.to_string(), "ä".repeat(CHARS_MAX));
    }
}
