//! Properties to sections: the level of the agent's own log.

use hadoop_conf::{Expected, PropertyReader};

/// Name of the property.
pub const LOG_LEVEL: &str = "yarn.nodemanager.agent.log.level";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Reads the level, with further ones for parts of the agent: `info` or `info,wire=debug`.
pub(super) fn log_level(reader: &mut PropertyReader<'_>) -> String {
    let text = reader.text(LOG_LEVEL).unwrap_or_default();
    if !text
        .split(',')
        .all(|directive| is_directive(directive.trim()))
    {
        let rule = "must be off, error, warn, info, debug or trace, and may be followed by others \
                    for parts of the agent, such as info,wire=debug";
        reader.problem(LOG_LEVEL, Expected::Rule(rule.into()));
    }
    text
}

fn is_directive(directive: &str) -> bool {
    let (part, level) = directive.split_once('=').unwrap_or(("", directive));
    let is_of_names = |char: char| char.is_ascii_alphanumeric() || "_:".contains(char);
    let has_part = !part.is_empty() || !directive.contains('=');
    let is_level = LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known));
    has_part && part.chars().all(is_of_names) && is_level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_is_a_level_with_or_without_a_part() {
        for right in ["info", "DEBUG", "wire=off", "node_manager::core=trace"] {
            assert!(is_directive(right), "{right}");
        }
        for wrong in [
            "",
            "loud",
            "wire",
            "=info",
            "wire=",
            "wire=loud",
            "w[x]=info",
        ] {
            assert!(!is_directive(wrong), "{wrong}");
        }
    }
}
