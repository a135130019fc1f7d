//! One property at a time: its text, what it should be, and the default when it is not set.

use super::{Address, ConfigProblem};
use crate::tokens::RollTimes;

/// A hundred years, in milliseconds: people write the largest number there is to say "never".
const MILLIS_MAX: i64 = 100 * 366 * 24 * 3_600_000;

/// Reads values and collects what is wrong with them.
pub(super) struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<ConfigProblem>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            lookup,
            problems: Vec::new(),
        }
    }

    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        self.problems
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = (self.lookup)(name)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// What `read` makes of the text, or the default when it is unset. A text that it cannot read is a problem.
    pub(super) fn value<T>(
        &mut self,
        name: &'static str,
        default: T,
        expected: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.text(name) else {
            return default;
        };
        read(&text).unwrap_or_else(|| {
            self.problems.push(ConfigProblem {
                name,
                value: text,
                expected,
            });
            default
        })
    }

    pub(super) fn millis(&mut self, name: &'static str, default: u64) -> u64 {
        let expected = "a whole number of milliseconds above 0 is expected";
        self.value(name, default, expected, |text| {
            let value = text.parse::<i64>().ok().filter(|value| *value > 0)?;
            u64::try_from(value.min(MILLIS_MAX)).ok()
        })
    }

    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        self.value(name, false, "true or false is expected", |text| {
            text.to_ascii_lowercase().parse().ok()
        })
    }

    /// -1 says "no limit".
    pub(super) fn count(&mut self, name: &'static str, default: Option<u32>) -> Option<u32> {
        let expected = "a whole number of at least 0, or -1 for no limit, is expected";
        self.value(name, default, expected, |text| {
            match text.parse::<i32>().ok()? {
                -1 => Some(None),
                value => Some(Some(u32::try_from(value).ok()?)),
            }
        })
    }

    pub(super) fn bound(&mut self, name: &'static str, default: i32) -> i32 {
        self.value(
            name,
            default,
            "a whole number of at least 0 is expected",
            |text| text.parse().ok().filter(|value| *value >= 0),
        )
    }

    pub(super) fn positive<T: Copy + PartialOrd + From<u8> + std::str::FromStr>(
        &mut self,
        name: &'static str,
        default: T,
    ) -> T {
        self.value(
            name,
            default,
            "a whole number above 0 is expected",
            |text| text.parse().ok().filter(|value| *value >= T::from(1)),
        )
    }

    pub(super) fn address(&mut self, name: &'static str, port: u16) -> Address {
        let host = self
            .text("yarn.resourcemanager.hostname")
            .unwrap_or_else(|| "0.0.0.0".to_owned());
        self.value(
            name,
            Address { host, port },
            "host:port is expected",
            |text| {
                let (host, port) = match text.rsplit_once(':') {
                    Some((host, port)) => (host, port.parse().ok()?),
                    None => (text, port),
                };
                let host = host.trim_start_matches('[').trim_end_matches(']');
                (!host.is_empty()).then(|| Address {
                    host: host.to_owned(),
                    port,
                })
            },
        )
    }

    pub(super) fn roll_times(&mut self, name: &'static str, overlap: u64) -> RollTimes {
        let expected = "a number of seconds of more than the time both keys count is expected";
        let default = 86_400_000;
        let interval = self.value(name, default, expected, |text| {
            let seconds = text.parse::<u64>().ok()?;
            let interval = seconds.checked_mul(1000)?;
            (interval > overlap).then_some(interval)
        });
        RollTimes { interval, overlap }
    }
}
