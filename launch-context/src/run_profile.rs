//! What a launch context tells of how long its container runs: a digest of its command, in which
//! numbers and ids are masked, and the hint of the application.
//!
//! The containers of one step of a job have commands that differ in numbers and ids alone, and so
//! have those of the next job of the same kind. Masked they are the same, and run for about as
//! long.

use localize::UserName;
use sched::{Digest, RunProfile};
use sha2::{Digest as _, Sha256};

use crate::LaunchContext;

/// Variable of a container's environment in which its application tells how long it will run, in
/// milliseconds.
pub const EXPECTED_RUN_VARIABLE: &str = "NM_AGENT_EXPECTED_RUN_MS";

/// Longest run that a hint may tell, in milliseconds: a year.
const HINT_MAX_MS: u64 = 365 * 24 * 3_600_000;

/// Most bytes of a command that count.
const COMMAND_BYTES_MAX: usize = 4_096;

/// Fewest characters of a hexadecimal word with a digit that is taken for an id.
const ID_CHARS_MIN: usize = 8;

impl LaunchContext {
    /// Returns what the launch context of a user's container tells of how long it runs. Takes some
    /// ten microseconds at most, whatever the length of the command.
    #[must_use]
    pub fn run_profile(&self, user: &UserName) -> RunProfile {
        let hint = self.environment.get(EXPECTED_RUN_VARIABLE);
        RunProfile {
            user: digest(user.as_str()),
            command: digest(&masked(&self.commands)),
            hint_ms: hint.and_then(|text| hint_ms(text)),
        }
    }
}

/// Reads a hint; `None`: it is no time that a container can run.
fn hint_ms(text: &str) -> Option<u64> {
    let ms: u64 = text.trim().parse().ok()?;
    (1..=HINT_MAX_MS).contains(&ms).then_some(ms)
}

/// Returns the first kilobytes of commands with `#` in place of each number and of each word that
/// looks like an id.
fn masked(commands: &[String]) -> String {
    let mut masked = String::new();
    let mut left = COMMAND_BYTES_MAX;
    for command in commands {
        let end = command.floor_char_boundary(left);
        let text = &command[..end];
        left -= end;
        for word in text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
            mask_word(word, &mut masked);
        }
        masked.push('\n');
    }
    masked
}

/// Appends a word, with the separator behind it, if any.
fn mask_word(word: &str, masked: &mut String) {
    let letters = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let separator = &word[letters.len()..];
    let is_id = letters.len() >= ID_CHARS_MIN
        && letters.bytes().all(|byte| byte.is_ascii_hexdigit())
        && letters.bytes().any(|byte| byte.is_ascii_digit());
    if is_id {
        masked.push('#');
    } else {
        let mut in_number = false;
        for letter in letters.chars() {
            let is_digit = letter.is_ascii_digit();
            if !is_digit {
                masked.push(letter);
            } else if !in_number {
                masked.push('#');
            }
            in_number = is_digit;
        }
    }
    masked.push_str(separator);
}

fn digest(text: &str) -> Digest {
    Digest::of_bytes(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(command: &str, hint: Option<&str>) -> LaunchContext {
        let hint = hint.map(|hint| (EXPECTED_RUN_VARIABLE.to_owned(), hint.to_owned()));
        LaunchContext {
            commands: vec![command.to_owned()],
            environment: hint.into_iter().collect(),
            ..LaunchContext::default()
        }
    }

    fn user(name: &str) -> UserName {
        name.parse().unwrap()
    }

    #[test]
    fn tasks_of_one_kind_are_alike_and_others_are_not() {
        let map = "java -Xmx820m YarnChild 10.1.2.3 41235 attempt_1700000000000_0007_m_000012_0 12";
        let next = "java -Xmx820m YarnChild 10.1.2.9 5123 attempt_1700000000000_0042_m_000003_1 3";
        let reduce = "java -Xmx820m YarnChild 10.1.2.9 512 attempt_1700000000000_0042_r_000003_1 3";
        let of = |user_name: &str, command| context(command, None).run_profile(&user(user_name));
        assert_eq!(of("alice", map), of("alice", next));
        assert_ne!(of("alice", map).command, of("alice", reduce).command);
        assert_ne!(of("alice", map).user, of("bob", map).user);
    }

    #[test]
    fn numbers_and_ids_are_masked_and_words_are_not() {
        let of = |command: &str| masked(&[command.to_owned()]);
        assert_eq!(of("sort -n 7 part-00012"), "sort -n # part-#\n");
        let id = "run 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --deadbeef1";
        assert_eq!(of(id), "run #-#f#-#d#-#a#c-# --#\n");
        assert_eq!(of("defaced facade"), "defaced facade\n");
        assert_eq!(of("größe 5 €9"), "größe # €#\n");
    }

    #[test]
    fn the_length_of_a_command_is_bounded() {
        let long = "é".repeat(10 << 20);
        assert!(masked(&[long.clone(), "x".to_owned()]).len() <= COMMAND_BYTES_MAX + 2);
    }

    #[test]
    fn only_times_that_can_be_are_hints() {
        let hint = |text| {
            context("sleep", Some(text))
                .run_profile(&user("alice"))
                .hint_ms
        };
        assert_eq!(hint("1"), Some(1));
        assert_eq!(hint(" 60000 "), Some(60_000));
        for wrong in [
            "0",
            "-1",
            "",
            "soon",
            "1e3",
            "1.5",
            "1000000000000000000",
            "99999999999999999999",
        ] {
            assert_eq!(hint(wrong), None, "{wrong:?}");
        }
    }
}
