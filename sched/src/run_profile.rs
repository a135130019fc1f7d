//! What a container's user and command tell of how long it runs: run times of earlier containers of
//! the same user and command, and hints, each trusted as far as the user's last hints were right.
//!
//! Users and commands come as digests, so no text of theirs is here. What belongs to a user serves
//! no other user, and no user displaces more than [`COMMANDS_OF_USER_MAX`] commands of others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::run_times::{Recent, SAMPLES_MIN};

/// Most commands of one user of which run times are kept, those used last.
const COMMANDS_OF_USER_MAX: usize = 128;

/// Most commands of which run times are kept, those used last. At 600 bytes each they take 600 KiB
/// at most.
const COMMANDS_MAX: usize = 1_024;

/// Most users whose hints are judged, those whose hints were judged last.
const HINTERS_MAX: usize = 1_024;

/// Hints of a user that count: the last ones.
const HINTS_MAX: u32 = 16;

/// Difference, in milliseconds, up to which a hint is right whatever its ratio to the run.
const HINT_SLACK_MS: u64 = 100;

/// Digest of a text, made where the text is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub [u32; 4]);

impl Digest {
    /// Takes the first bytes of a digest, which has at least 16, in their order.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        Self(words)
    }

    /// Returns the bytes that [`of_bytes`](Self::of_bytes) takes.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let words = self.0.iter();
        words.flat_map(|word| word.to_be_bytes()).collect()
    }
}

/// Facts of a container's launch context that say how long it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProfile {
    /// Digest of the user's name.
    pub user: Digest,
    /// Digest of the command, in which numbers and ids are masked.
    pub command: Digest,
    /// Milliseconds that the container will run, as its application says; `None`: it says nothing
    /// that can be.
    pub hint_ms: Option<u64>,
}

/// Run times of one command of one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearntCommand {
    /// Digest of the user's name.
    pub user: Digest,
    /// Digest of the masked command.
    pub command: Digest,
    /// Number of the last run of it.
    pub used: u64,
    /// Run times in milliseconds, oldest first.
    pub ran_ms: Vec<u64>,
}

/// Run lengths learnt by user and command, as values that can be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearntRuns {
    /// Run times by user and command.
    pub commands: Vec<LearntCommand>,
    /// Users with what is known of their hints.
    pub hinters: Vec<(Digest, Hinter)>,
    /// Number of the last run.
    pub uses: u64,
}

/// How right the last hints of a user were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hinter {
    /// A bit for each of the last hints, that of the last one lowest: 1 for a right one.
    pub right: u32,
    /// Hints that count.
    pub count: u32,
    /// Number of the last run with a hint.
    pub used: u64,
}

impl Hinter {
    fn judge(&mut self, hint_ms: u64, ran_ms: u64) {
        let is_right = hint_ms.abs_diff(ran_ms) <= HINT_SLACK_MS
            || (hint_ms / 2 <= ran_ms && ran_ms / 2 <= hint_ms);
        self.right = (self.right << 1 | u32::from(is_right)) & ((1 << HINTS_MAX) - 1);
        self.count = (self.count + 1).min(HINTS_MAX);
    }

    /// Returns the mean of a hint and of what is expected without it, weighted by the share of the
    /// last hints that were right. A first hint is believed.
    fn weigh(self, hint_ms: u64, expected_ms: u64) -> u64 {
        let (right, count) = match self.count {
            0 => (1, 1),
            count => (self.right.count_ones(), count),
        };
        let part = |ms: u64, of: u32| u128::from(ms) * u128::from(of);
        let sum = part(hint_ms, right) + part(expected_ms, count - right);
        u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX)
    }
}

/// Run times by user and command, and the trust in users' hints.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProfiledRuns {
    commands: BTreeMap<(Digest, Digest), (Recent, u64)>,
    hinters: BTreeMap<Digest, Hinter>,
    uses: u64,
}

impl ProfiledRuns {
    /// Records a run.
    pub(crate) fn record(&mut self, profile: RunProfile, ran_ms: u64) {
        self.uses += 1;
        let key = (profile.user, profile.command);
        if !self.commands.contains_key(&key) {
            self.make_place(profile.user);
        }
        let (recent, used) = self.commands.entry(key).or_default();
        recent.push(ran_ms);
        *used = self.uses;
        let Some(hint_ms) = profile.hint_ms else {
            return;
        };
        if !self.hinters.contains_key(&profile.user) && self.hinters.len() >= HINTERS_MAX {
            let oldest = self.hinters.iter().min_by_key(|(_, hinter)| hinter.used);
            if let Some(oldest) = oldest.map(|(user, _)| *user) {
                self.hinters.remove(&oldest);
            }
        }
        let hinter = self.hinters.entry(profile.user).or_default();
        hinter.judge(hint_ms, ran_ms);
        hinter.used = self.uses;
    }

    /// Drops the command used longest ago: of the user, if he has as many as he may have, else of
    /// all, if there are too many.
    fn make_place(&mut self, user: Digest) {
        let range = (user, Digest([0; 4]))..=(user, Digest([u32::MAX; 4]));
        let oldest = if self.commands.range(range.clone()).count() >= COMMANDS_OF_USER_MAX {
            let own = self.commands.range(range);
            own.min_by_key(|(_, (_, used))| *used)
        } else if self.commands.len() >= COMMANDS_MAX {
            self.commands.iter().min_by_key(|(_, (_, used))| *used)
        } else {
            None
        };
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            self.commands.remove(&oldest);
        }
    }

    /// Returns the run times of a user's command, shortest first; `None`: too few are known.
    pub(crate) fn expected(&self, profile: &RunProfile) -> Option<&[u64]> {
        let (recent, _) = self.commands.get(&(profile.user, profile.command))?;
        let sorted = recent.sorted();
        (sorted.len() >= SAMPLES_MIN).then_some(sorted)
    }

    /// Returns the milliseconds that a container is expected to run, given what is expected of it
    /// without its hint.
    pub(crate) fn weigh_hint(&self, profile: &RunProfile, expected_ms: u64) -> u64 {
        let Some(hint_ms) = profile.hint_ms else {
            return expected_ms;
        };
        let hinter = self.hinters.get(&profile.user).copied().unwrap_or_default();
        hinter.weigh(hint_ms, expected_ms)
    }

    /// Returns the number of runs so far.
    pub(crate) const fn uses(&self) -> u64 {
        self.uses
    }

    /// Returns what has been learnt as values that can be stored.
    pub(crate) fn stored(&self) -> LearntRuns {
        let commands = self.commands.iter();
        let commands = commands.map(|((user, command), (recent, used))| LearntCommand {
            user: *user,
            command: *command,
            used: *used,
            ran_ms: recent.arrived().collect(),
        });
        LearntRuns {
            commands: commands.collect(),
            hinters: self.hinters.iter().map(|(user, of)| (*user, *of)).collect(),
            uses: self.uses,
        }
    }

    /// Returns what was stored; `None`: that is not what [`Self::stored`] returns.
    pub(crate) fn from_stored(stored: &LearntRuns) -> Option<Self> {
        let fits = stored.commands.len() <= COMMANDS_MAX
            && stored.hinters.len() <= HINTERS_MAX
            && stored.uses <= crate::run_times::USES_MAX;
        let mut runs = Self {
            uses: stored.uses,
            ..Self::default()
        };
        for command in &stored.commands {
            let recent = Recent::of(command.ran_ms.iter().copied())?;
            let key = (command.user, command.command);
            runs.commands.insert(key, (recent, command.used));
        }
        for (user, hinter) in &stored.hinters {
            if hinter.count > HINTS_MAX || hinter.right.checked_shr(hinter.count) != Some(0) {
                return None;
            }
            runs.hinters.insert(*user, *hinter);
        }
        fits.then_some(runs)
    }
}

impl LearntRuns {
    /// Returns whether nothing has been learnt.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.hinters.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u32) -> Digest {
        Digest([number, 0, 0, 0])
    }

    fn profile(user: u32, command: u32, hint_ms: Option<u64>) -> RunProfile {
        RunProfile {
            user: digest(user),
            command: digest(command),
            hint_ms,
        }
    }

    #[test]
    fn a_command_is_known_after_three_runs_and_only_to_its_user() {
        let mut runs = ProfiledRuns::default();
        for ran_ms in [30, 10, 20] {
            assert_eq!(runs.expected(&profile(1, 1, None)), None);
            runs.record(profile(1, 1, None), ran_ms);
        }
        assert_eq!(runs.expected(&profile(1, 1, None)), Some(&[10, 20, 30][..]));
        assert_eq!(runs.expected(&profile(2, 1, None)), None);
        assert_eq!(runs.expected(&profile(1, 2, None)), None);
    }

    #[test]
    fn a_user_of_many_commands_displaces_his_own_and_few_of_others() {
        let mut runs = ProfiledRuns::default();
        let others = u32::try_from(COMMANDS_MAX).unwrap();
        for command in 0..others {
            for ran_ms in [1, 2, 3] {
                runs.record(profile(command / 100, command, None), ran_ms);
            }
        }
        for command in 0..100_000 {
            runs.record(profile(1_000, command, None), 7);
        }
        assert_eq!(runs.commands.len(), COMMANDS_MAX);
        let left = (0..others).filter(|command| {
            runs.expected(&profile(command / 100, *command, None))
                .is_some()
        });
        assert_eq!(left.count(), COMMANDS_MAX - COMMANDS_OF_USER_MAX);
    }

    #[test]
    fn a_hint_counts_as_far_as_the_last_were_right() {
        let mut runs = ProfiledRuns::default();
        let hinted = profile(1, 1, Some(1_000));
        assert_eq!(runs.weigh_hint(&hinted, 9_000), 1_000);
        runs.record(hinted, 1_900);
        assert_eq!(runs.weigh_hint(&hinted, 9_000), 1_000);
        runs.record(hinted, 2_500);
        assert_eq!(runs.weigh_hint(&hinted, 9_000), 5_000);
        for _ in 0..HINTS_MAX {
            runs.record(profile(1, 2, Some(1)), 8_000);
        }
        assert_eq!(runs.weigh_hint(&profile(1, 3, Some(1)), 9_000), 9_000);
        assert_eq!(runs.weigh_hint(&profile(2, 3, Some(1)), 9_000), 1);
        for _ in 0..HINTS_MAX {
            runs.record(hinted, 1_000);
        }
        assert_eq!(runs.weigh_hint(&hinted, 9_000), 1_000);
    }

    #[test]
    fn users_that_hint_are_bounded() {
        let mut runs = ProfiledRuns::default();
        for user in 0..3_000 {
            runs.record(profile(user, 1, Some(1)), 8_000);
        }
        assert_eq!(runs.hinters.len(), HINTERS_MAX);
        assert_eq!(runs.weigh_hint(&profile(2_999, 1, Some(1)), 9_000), 9_000);
    }

    #[test]
    fn what_is_stored_comes_back_and_nothing_else_is_taken() {
        let mut runs = ProfiledRuns::default();
        for ran_ms in 0..40 {
            runs.record(profile(1, 1, Some(5_000)), ran_ms);
        }
        let stored = runs.stored();
        let again = ProfiledRuns::from_stored(&stored).unwrap();
        assert_eq!(again.stored(), stored);
        let refused = |change: fn(&mut LearntRuns)| {
            let mut changed = stored.clone();
            change(&mut changed);
            assert!(ProfiledRuns::from_stored(&changed).is_none(), "{changed:?}");
        };
        refused(|changed| changed.uses = u64::MAX);
        refused(|changed| changed.commands[0].ran_ms.push(1));
        refused(|changed| changed.hinters[0].1.count = 40);
        refused(|changed| changed.hinters[0].1.right = u32::MAX);
        refused(|changed| changed.commands = vec![changed.commands[0].clone(); 2_000]);
    }
}
