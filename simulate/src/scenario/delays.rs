//! Delays of a scenario: a profile of measured ones, and what the scenario sets otherwise.

use serde::Deserialize;

use crate::delay::Delay;

/// Profile of a scenario that names none.
const DEFAULT_PROFILE: &str = "agent";

/// Profiles that come with the program, with their texts. Each says where its numbers come from.
pub const PROFILES: &[(&str, &str)] = &[
    ("agent", include_str!("../../profiles/agent.toml")),
    ("hadoop", include_str!("../../profiles/hadoop.toml")),
    ("paper", include_str!("../../profiles/paper.toml")),
];

/// Delays of messages, launches and heartbeats.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Overrides")]
pub struct Delays {
    /// Profile that the delays are from.
    pub profile: String,
    /// Whether the scenario sets some of them otherwise.
    pub is_changed: bool,
    /// Interval of a node's heartbeats.
    pub node_heartbeat: Delay,
    /// Whether a node sends a heartbeat at once when a container ends.
    pub out_of_band: bool,
    /// Interval of an ApplicationMaster's heartbeats.
    pub am_heartbeat: Delay,
    /// Time from an ApplicationMaster's answer until its start call reaches the node.
    pub start_call: Delay,
    /// Time from a container's start on the node to the first instruction of its process. The same
    /// for a task under every arm of a seed.
    pub launch: Delay,
    /// Time from a kill to the end of the processes.
    pub kill: Delay,
    /// Time from the order to freeze or thaw a container until it is so.
    pub pause: Delay,
}

/// Delays as a scenario or a profile writes them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Overrides {
    profile: Option<String>,
    node_heartbeat_ms: Option<Delay>,
    out_of_band: Option<bool>,
    am_heartbeat_ms: Option<Delay>,
    start_call_ms: Option<Delay>,
    launch_ms: Option<Delay>,
    kill_ms: Option<Delay>,
    pause_ms: Option<Delay>,
}

impl TryFrom<Overrides> for Delays {
    type Error = String;

    fn try_from(set: Overrides) -> Result<Self, String> {
        let name = set.profile.as_deref().unwrap_or(DEFAULT_PROFILE);
        let mut delays = Self::of_profile(name)?;
        let only_profile = Overrides {
            profile: set.profile.clone(),
            ..Overrides::default()
        };
        delays.is_changed = set != only_profile;
        let put = |delay: &mut Delay, set: Option<Delay>| {
            if let Some(set) = set {
                *delay = set;
            }
        };
        put(&mut delays.node_heartbeat, set.node_heartbeat_ms);
        put(&mut delays.am_heartbeat, set.am_heartbeat_ms);
        put(&mut delays.start_call, set.start_call_ms);
        put(&mut delays.launch, set.launch_ms);
        put(&mut delays.kill, set.kill_ms);
        put(&mut delays.pause, set.pause_ms);
        delays.out_of_band = set.out_of_band.unwrap_or(delays.out_of_band);
        Ok(delays)
    }
}

impl Delays {
    /// Returns the delays of a profile.
    ///
    /// # Errors
    /// A text that names the profiles, if it is none of them.
    pub fn of_profile(name: &str) -> Result<Self, String> {
        let Some((profile, text)) = PROFILES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = PROFILES.iter().map(|(known, _)| *known).collect();
            let known = known.join(", ");
            return Err(format!("unknown profile `{name}`, expected one of {known}"));
        };
        let incomplete = |key: &str| format!("profile {name}: no {key}");
        let set: Overrides = toml::from_str(text).map_err(|error| error.to_string())?;
        let delay = |delay: Option<Delay>, key| delay.ok_or_else(|| incomplete(key));
        Ok(Self {
            profile: (*profile).to_owned(),
            is_changed: false,
            node_heartbeat: delay(set.node_heartbeat_ms, "node-heartbeat-ms")?,
            out_of_band: set.out_of_band.ok_or_else(|| incomplete("out-of-band"))?,
            am_heartbeat: delay(set.am_heartbeat_ms, "am-heartbeat-ms")?,
            start_call: delay(set.start_call_ms, "start-call-ms")?,
            launch: delay(set.launch_ms, "launch-ms")?,
            kill: delay(set.kill_ms, "kill-ms")?,
            pause: delay(set.pause_ms, "pause-ms")?,
        })
    }
}

impl Default for Delays {
    /// Returns the delays of this agent.
    fn default() -> Self {
        Self::of_profile(DEFAULT_PROFILE).expect("the profiles are constants; a test reads each")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_complete_and_says_where_its_numbers_come_from() {
        for (name, text) in PROFILES {
            let delays = Delays::of_profile(name).unwrap();
            assert_eq!(delays.profile, *name);
            let comment = text.lines().take_while(|line| line.starts_with('#'));
            let comment: String = comment.collect();
            for subject in ["Heartbeats:", "Launch:"] {
                assert!(comment.contains(subject), "{name}: {subject}");
            }
        }
    }

    #[test]
    fn a_scenario_overrides_single_delays_of_the_profile_that_it_names() {
        let text = "profile = \"paper\"\nam-heartbeat-ms = 1000";
        let delays: Delays = toml::from_str(text).unwrap();
        let paper = Delays::of_profile("paper").unwrap();
        assert_eq!(delays.am_heartbeat, Delay::fixed(1_000));
        assert!(delays.is_changed && !paper.is_changed);
        let same = Delays {
            am_heartbeat: paper.am_heartbeat.clone(),
            is_changed: false,
            ..delays
        };
        assert_eq!(same, paper);
    }

    #[test]
    fn an_unknown_profile_is_named_with_those_that_exist() {
        let error = toml::from_str::<Delays>("profile = \"papers\"").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("`papers`, expected one of agent, hadoop, paper"),
            "{error}"
        );
    }
}
