//! What an unknown key of a scenario was probably meant to be.

/// Keys of an arm. The reader of TOML names the keys that it accepts only where a table has no
/// further ones, which an arm has.
const ARM: [&str; 19] = [
    "policy",
    "name",
    "nodes-used",
    "queue-length",
    "queue-order",
    "queue-bound-factor",
    "hints",
    "hints-wrong-percent",
    "sorting-interval-ms",
    "comparator",
    "limit-stdev",
    "limit-min",
    "limit-max",
    "look-ms",
    "message-ms",
    "holds-back",
    "pause",
    "pause-max-s",
    "pause-memory-percent",
];

/// Most letters by which a key differs from the one that was meant.
const DISTANCE_MAX: usize = 3;

/// Returns a line that names the nearest key that is accepted, for an error about an unknown one;
/// otherwise an empty text.
pub(super) fn near(error: &toml::de::Error) -> String {
    let message = error.message();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let Some(unknown) = quoted.next().filter(|_| is_unknown) else {
        return String::new();
    };
    let mut accepted: Vec<&str> = quoted.collect();
    if accepted.is_empty() {
        accepted.extend(ARM);
    }
    let distances = accepted
        .into_iter()
        .map(|key| (distance(unknown, key), key));
    match distances.min() {
        Some((letters, key)) if letters <= DISTANCE_MAX && letters < key.len() => {
            format!("\ndid you mean `{key}`?")
        }
        Some(_) | None => String::new(),
    }
}

/// Returns the number of letters to insert, remove or replace (Levenshtein, 1965).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    // An unknown key can be as long as a scenario.
    for (number, letter) in from.chars().take(100).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], number + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_single_letters() {
        for (from, to, letters) in [("place", "places", 1), ("nodes", "", 5), ("abc", "axcd", 2)] {
            assert_eq!(distance(from, to), letters, "{from} {to}");
        }
    }
}
