//! Scenarios that come with the program.

/// Scenario that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Name.
    pub name: &'static str,
    /// Text.
    pub text: &'static str,
}

impl Builtin {
    /// Returns what the scenario is for: its first line, a comment.
    #[must_use]
    pub fn purpose(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches(['#', ' '])
    }
}

macro_rules! scenarios {
    ($($name:literal)*) => {
        /// Every scenario that comes with the program.
        pub const BUILTIN: &[Builtin] = &[
            $(Builtin {
                name: $name,
                text: include_str!(concat!("../scenarios/", $name, ".toml")),
            },)*
        ];
    };
}

scenarios! {
    "two-100" "two-1000" "heavy-100"
    "paper-5" "paper-10" "paper-50" "paper-mixed" "sweep-200"
    "old-news" "old-news-half" "old-news-100"
    "seconds-1" "seconds-5" "seconds-10" "seconds-50" "mixed" "facebook"
    "known-100" "known-1000" "known-1000-half" "known-10000" "known-10000-ten"
}

/// Returns the scenario of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|builtin| builtin.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_scenario_of_the_program_can_be_read_and_says_what_it_is_for() {
        for builtin in BUILTIN {
            let scenario = Scenario::read(builtin.text).unwrap();
            assert!(scenario.arms.len() > 1, "{}", builtin.name);
            assert!(builtin.purpose().ends_with('.'), "{}", builtin.name);
        }
    }
}
